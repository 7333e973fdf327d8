"""Faults of the machine below a run: a disk that fills up, a place that cannot be written, other threads."""

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.process import called, cli, small
from tests.helpers import needs_gpu
from tests.runs.checkpoint.scene import Scene, results, tiny
from tests.trained_runs import SMALL

RUN = ("run", *small("stream.samples=100"), "--seeds", "2", "--device", "cpu", "--checkpoint-steps", "3")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs: run as root")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def rows(out: Path) -> dict[str, bytes]:
    """All bytes of all rows."""
    (run,) = out.glob("digits-*")
    return {f"{row.name}/{name}": data for row in run.iterdir() if row.is_dir() for name, data in results(row).items()}


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_full_disk_ends_nothing_that_is_finished_and_the_rest_goes_on(disk: Path, tmp_path: Path) -> None:
    assert called(*RUN, "--out", "undisturbed", cwd=tmp_path).returncode == 0
    expected = rows(tmp_path / "undisturbed")
    size = sum(map(len, expected.values()))
    filler = disk / "filler"
    room = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    filler.write_bytes(b"0" * (room - size // 2))  # for the first row, but not for all
    full = called(*RUN, "--out", str(disk), cwd=tmp_path)
    assert full.returncode == 2
    last = full.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert "No space left on device" in full.stderr.replace("\n", " ")
    assert "free some space" in last
    filler.unlink()
    again = called(*RUN, "--out", str(disk), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert rows(disk) == expected


def test_a_place_that_cannot_be_written_is_named_before_training(disk: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    found = called(*RUN, "--out", str(disk / "runs"), cwd=tmp_path)
    assert found.returncode == 2
    assert "Read-only file system; choose another place with --out" in found.stderr
    assert "━" not in found.stderr  # no bar was begun


def test_deterministic_runs_have_the_same_bytes_whatever_the_process_and_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (part for setting in (*SMALL, "model.hidden=[100]", "learner.memory=64") for part in ("--set", setting))
    command = ("run", "digits", *settings, "--seeds", "2", "--device", "cpu", "--deterministic")
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found = cli(*command, "--out", threads, cwd=tmp_path)
        assert found.returncode == 0, found.stderr
    assert rows(tmp_path / "1") == rows(tmp_path / "2")
    refused = called("run", "--deterministic", "--threads", "2", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--deterministic computes with one thread, not 2" in refused.stderr


@needs_gpu
@pytest.mark.parametrize("signal", ["none", "predicted", "contrastive", "soft", "distil"])
@pytest.mark.parametrize("learner", ["finetune", "gem", "dcl", "a-gem", "er"])
@pytest.mark.parametrize("model", ["mlp", "slim-resnet18"])
@pytest.mark.usefixtures("deterministic")
def test_with_deterministic_algorithms_a_gpu_goes_on_to_the_same_bytes(
    tmp_path: Path, model: str, learner: str, signal: str
) -> None:
    network = ("model.name=slim-resnet18", "model.width=4") if model == "slim-resnet18" else ()
    spec = tiny(f"learner.name={learner}", f"signal.name={signal}", *network)
    scene = Scene(tmp_path, "cuda")
    assert scene.train(spec, "whole") == scene.with_cuts(spec, "cut", random.Random(f"{model} {learner} {signal}"))
