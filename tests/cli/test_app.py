import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tools.render_commands import commands

import gradcast
import gradcast_start
from tests.cli.process import called, cli, small


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "digitz"], "did you mean 'digits'?"),
        (["run", "--set", "stream.taks=3"], "did you mean 'stream.tasks'?"),
        (["run", "--set", "stream.source=imagenet"], "'imagenet' is unknown; did you mean 'tiny-imagenet'?"),
        (["run", "--set", "stream.batch=-1"], "stream.batch = -1 is not valid"),
        (["run", "--set", "policy.p=2"], "policy.p = 2"),
        (["run", "--set", "stream.scenario=split", "--set", "stream.tasks=11"], "digits has 10"),
        (["run", "mnist-r"], "yann.lecun.com"),
        (["run", "mnist-r", "--data", "nowhere"], "mnist is not in nowhere"),
        (["run", "digits", "--set", "pool.name=folder", "--set", "pool.path=void"], "pool.path"),
        (["run", "--device", "warp"], "--device cpu"),
        (["run", "--device", "meta"], "--device cpu"),
        (["run", "--set", "stream=5", "--set", "stream.tasks=2"], "'stream' must be a table"),
        (["run", "--set", f"stream.tasks={'9' * 5000}"], "stream.tasks"),
        (["run", "--set", "stream.tasks=2\nseeds=[7]"], "cannot be printed"),
        (["run", "--set", "stream.tasks=true"], "stream.tasks = True is not valid"),
        (["run", *small("learner.name=finetune", "learner.lr=1e20")], "not finite at step"),
        (["verify", "nothing.npz"], "nothing.npz does not exist"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    found = called(*arguments, cwd=tmp_path)
    assert found.returncode == 2
    assert message in found.stderr
    assert len([line for line in found.stderr.splitlines() if line.startswith("error: ")]) == 1
    assert found.stdout == ""


def test_the_process_itself_ends_without_a_traceback(tmp_path: Path) -> None:
    found = cli("run", "digitz", cwd=tmp_path)
    assert found.returncode == 2
    assert found.stderr.splitlines() == ["error: there is no preset or file 'digitz'; did you mean 'digits'?"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = called("run", *small(), "--out", "file/runs", cwd=tmp_path)
    assert found.returncode == 2
    assert "file/runs" in found.stderr
    assert "Traceback" not in found.stderr


def test_version(tmp_path: Path) -> None:
    assert called("--version", cwd=tmp_path).stdout == f"gradcast {gradcast.__version__}\n"


def test_ctrl_c_while_libraries_load_ends_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "gradcast_start", "--version"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:  # a line a module
        if line.rstrip().endswith(" numpy"):
            break
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGINT
    assert "Traceback" not in rest


@pytest.mark.parametrize(
    ("command", "before", "after"),
    [
        ("run", {}, {"GOMP_SPINCOUNT": "20000"}),
        ("run", {"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
        ("run", {"OMP_WAIT_POLICY": "PASSIVE"}, {"OMP_WAIT_POLICY": "PASSIVE"}),
        ("bench", {}, {}),  # compares with scripts, which have the library's own
    ],
)
def test_waiting_threads_soon_sleep_unless_somebody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, command: str, before: dict[str, str], after: dict[str, str]
) -> None:
    found = dict[str, str]()
    own = before.copy()
    monkeypatch.setattr(os, "environ", own)
    monkeypatch.setattr(sys, "argv", ["gradcast", command])
    monkeypatch.setattr("gradcast.cli.app.main", lambda: found.update(own))
    gradcast_start.main()
    assert found == after


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("stream.size=100000", "stream.size = 100000 is not valid"),
        ("pool.count=1000000000", "pool.count = 1000000000 is not valid"),
        ("stream.tasks=10000000", "stream.tasks = 10000000 is not valid"),
        ("stream.epochs=1000000000000", "stream.epochs = 1000000000000 is not valid"),
        ("model.weights=/dev/zero", "/dev/zero is not an ordinary file"),
    ],
)
def test_values_beyond_reason_are_refused_at_once(tmp_path: Path, setting: str, message: str) -> None:
    found = called("run", *small(setting), "--device", "cpu", cwd=tmp_path)
    assert found.returncode == 2
    assert message in found.stderr.replace("\n", " ")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", *(name for name, _ in commands())])
def test_help_fits_eighty_columns(name: str, tmp_path: Path) -> None:
    done = called(*name.split(), "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_many_options_are_grouped_and_paragraphs_follow_the_terminal(tmp_path: Path) -> None:
    text = called("run", "--help", cwd=tmp_path).stdout
    places = [text.index(f"─ {panel} ─") for panel in ("Options", "Files", "Machine", "Checkpoints")]
    assert places == sorted(places)
    assert text.index("--set") < places[1] < text.index("--out") < places[2] < text.index("--threads")
    assert "goes on from its newest checkpoint" in " ".join(text.split())
    lines = [line.rstrip() for line in text.splitlines()]
    start = next(number for number, line in enumerate(lines) if "A finished row" in line)
    assert all(len(line) > 60 for line in lines[start : start + 2])  # no line of the source ends in the middle
