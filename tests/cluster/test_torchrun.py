import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import STDOUT

import pytest
import torch
from safetensors.torch import load_file

from gradcast.cluster.torchrun import VARIABLES, joined, ranks_started, silence_others
from tests.cli.process import called
from tests.cluster.two_ranks import by_two_ranks, environment, finished

RUN = """
name = "divided"
seeds = [1]
dtype = "float64"
stream = {source = "digits", scenario = "split", tasks = 2, samples = 21, batch = 7, size = 16, colour = "rgb"}
model = {name = "slim-resnet18", width = 2}
learner = {name = "er", memory = 10, replay = 5, lr = 0.05}
policy = {p = 1.0, batch = 5}
pool = {name = "patches", count = 40}
[[row]]
name = "contrastive"
signal.name = "contrastive"
"""
OWN = """
import os, signal
from pathlib import Path
import gradcast
from torch import nn

class Failing(nn.Module):
    def __init__(self, outputs, shape):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        self.last = nn.Linear(196, outputs)

    def forward(self, x):
        fault = os.environ.get("FAULT") if os.environ.get("RANK") == "1" else None
        if fault and any(Path().glob("*/*/checkpoint-*")):
            if fault == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise gradcast.GradcastError("the second process has had enough; leave it alone")
        return self.last(self.body(x))
"""
POOL = ("--pool", "patches", "--set", "pool.count=40", "--steps", "12", "--batch", "9", "--size", "16", "--seed", "1")
PRETRAIN = ("pretrain", *POOL, "--dtype", "float64", "--threads", "1", "--checkpoint-steps", "4")


def run(out: str) -> list[str]:
    """The command, without its program."""
    return ["run", "spec.toml", "--threads", "1", "--out", out, "--checkpoint-steps", "2", "--device", "cpu"]


def difference(ours: Path, theirs: Path) -> float:
    """The largest of all tensors, relative to their length."""
    one, two = load_file(ours), load_file(theirs)
    assert one.keys() == two.keys()
    apart = [float((one[name] - two[name]).double().norm() / one[name].double().norm()) for name in one]
    return max(apart)


def weights(out: Path) -> Path:
    (found,) = out.glob("divided-*/contrastive/seed-1/weights.safetensors")
    return found


def test_a_run_by_two_ranks_that_was_stopped_ends_at_the_weights_of_one_process(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(RUN)
    alone = called(*run("one"), cwd=tmp_path)
    assert alone.returncode == 0, alone.stderr
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "gradcast", *run("two")]
    ours = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=STDOUT,
        start_new_session=True,
    )
    wait_for(tmp_path, "two/*/*/checkpoint-*")
    ours.send_signal(signal.SIGTERM)
    told = finished(ours)
    assert ours.returncode != 0
    assert told.count("checkpoint written; the same command goes on from there") == 1
    assert not list(tmp_path.glob("two/*/contrastive/manifest.json"))
    first, second = by_two_ranks([*run("two"), "--resume"], tmp_path)
    assert first.code == second.code == 0, first.err
    assert second.out == second.err == ""
    assert "Results: two/divided-" in first.out
    assert difference(weights(tmp_path / "one"), weights(tmp_path / "two")) < 1e-8
    files = [{path.relative_to(tmp_path / out) for path in (tmp_path / out).rglob("*")} for out in ("one", "two")]
    assert files[0] == files[1]
    env = (weights(tmp_path / "two").parent.parent / "env.json").read_text()
    assert '"ranks": 2' in env
    assert '"ranks"' not in (weights(tmp_path / "one").parent.parent / "env.json").read_text()


def wait_for(folder: Path, pattern: str) -> None:
    for _ in range(1000):
        if any(folder.glob(pattern)):
            return
        time.sleep(0.05)
    raise AssertionError("no checkpoint was written")


def test_a_failure_of_one_rank_ends_all_and_the_head_start_goes_on_to_the_weights_of_one_process(
    tmp_path: Path,
) -> None:
    (tmp_path / "failing_network.py").write_text(OWN)
    words = (*PRETRAIN, "--model", "failing_network:Failing", "--device", "cpu")
    own = {"GRADCAST_CACHE": str(tmp_path / "cache")}
    first, second = by_two_ranks([*words, "--out", "two.safetensors"], tmp_path, own | {"FAULT": "sentence"})
    assert (first.code, second.code) == (2, 2)
    assert first.err.count("error: the second process has had enough; leave it alone") == 1
    first, second = by_two_ranks([*words, "--out", "two.safetensors"], tmp_path, own | {"FAULT": "killed"})
    assert (first.code, second.code) == (2, -signal.SIGKILL)
    assert first.err.count("error: a process of this run ended or cannot be reached") == 1
    assert "Traceback" not in first.err
    first, second = by_two_ranks([*words, "--resume", "--out", "two.safetensors"], tmp_path, own)
    assert (first.code, second.code) == (0, 0), first.err
    alone = called(*words, "--out", "one.safetensors", cwd=tmp_path)
    assert alone.returncode == 0, alone.stderr
    assert 0 < difference(tmp_path / "one.safetensors", tmp_path / "two.safetensors") < 1e-8


def test_without_torchrun_there_is_one_process_and_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ranks_started() == 1
    monkeypatch.setenv("WORLD_SIZE", "8")  # somebody else's
    assert ranks_started() == 1
    before = sys.stdout
    silence_others()
    assert sys.stdout is before
    with joined(print) as ranks:
        assert ranks is None
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("reproduce", "E1"), "torchrun is for gradcast run, ssl and pretrain; start gradcast reproduce without it"),
        (("run", "--on", "ray"), "--on ray and torchrun both start processes"),
    ],
)
def test_what_torchrun_cannot_start_is_refused(
    words: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "2" if name == "WORLD_SIZE" else "0")
    done = called(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())
