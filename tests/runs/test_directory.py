import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from gradcast.errors import GradcastError
from gradcast.runs.directory import WRITING, RunDirectory, to_json, write_tensors, write_text
from gradcast.runs.recorder import Recorder
from gradcast.specs.text import load
from tests.trained_runs import begun

STEP = '{"step": 0, "task": 0, "loss": 1.0}\n'


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return begun(tmp_path)


def test_the_name_follows_the_specification(tmp_path: Path) -> None:
    one, same = (RunDirectory.create(tmp_path, load("digits")) for _ in range(2))
    other = RunDirectory.create(tmp_path, load("digits", ["learner.lr=0.2"]))
    assert one.path == same.path != other.path
    assert one.path.name.startswith("digits-")
    assert one.spec == load("digits")


def test_a_row_counts_as_finished_only_at_the_end_and_starts_empty(directory: RunDirectory) -> None:
    Recorder(directory, "base", [0, 7]).evaluated(0, torch.zeros(2, 3))
    assert not directory.finished("base")
    directory.start("base", [0, 7])
    assert not (directory.seed("base", 0) / "accuracy.csv").exists()
    directory.finish("base", {"device": "cpu"})
    assert directory.finished("base")


def test_weights_and_stream_facts_are_readable(directory: RunDirectory) -> None:
    directory.weights("base", 0, {"model.w": torch.arange(6.0).view(2, 3).T})
    assert torch.equal(
        load_file(directory.seed("base", 0) / "weights.safetensors")["model.w"], torch.arange(6.0).view(2, 3).T
    )
    directory.stream("base", {"angles": np.array([1.5, 2.5]), "source": "abc"})
    assert json.loads((directory.path / "base" / "stream.json").read_text()) == {"angles": [1.5, 2.5], "source": "abc"}


@pytest.mark.parametrize(
    ("file", "content", "fault"),
    [
        ("accuracy.csv", "tasks_done,task_0\n0,abc\n1,0.5\n", "line 2 has something that is no number"),
        ("accuracy.csv", "", "0 tasks"),
        ("accuracy.csv", "tasks_done,task_0\n0,0.5\n", "1 rows for 1 tasks"),
        ("accuracy.csv", "tasks_done,task_0\n0,0.5\n1,nan\n", "line 3 has a number that is no share of images"),
        ("accuracy.csv", "tasks_done,task_0\n0,0.5\n1,7.5\n", "line 3 has a number that is no share of images"),
        ("accuracy.csv", "tasks_done,task_0\n0,0.5\n1,0.5,0.5\n", "line 3 has 2 numbers for 1 tasks"),
        ("metrics.jsonl", '{"step": 0', "line 1: Expecting ',' delimiter"),
        ("metrics.jsonl", "", "no step"),
        ("metrics.jsonl", STEP + "5\n", "line 2 has not the numbers of a step"),
        ("metrics.jsonl", STEP + STEP.replace("1.0", '"abc"'), "line 2 has not the numbers of a step"),
        ("metrics.jsonl", STEP * 2 + f'{{"step": {10**30}}}', "line 3: the number 10000000000000000000… is too large"),
    ],
)
def test_damaged_files_are_named(directory: RunDirectory, file: str, content: str, fault: str) -> None:
    (directory.seed("base", 0) / file).write_text(content)
    read = directory.accuracy if file == "accuracy.csv" else directory.metrics
    with pytest.raises(GradcastError, match=rf"{file} cannot be read \({fault}"):
        read("base", 0)
    with pytest.raises(GradcastError, match=rf"seed-7/{file} is missing; delete .* and run again"):
        read("base", 7)


def test_steps_that_are_missing_at_the_end_are_missed(directory: RunDirectory) -> None:
    directory.start("base", [3])
    file, line = directory.seed("base", 3) / "metrics.jsonl", '{"step": 0, "task": 0, "loss": 1.0}\n'
    file.write_text(line * 3)
    assert len(directory.metrics("base", 3)) == 3  # it may still be growing
    directory.finish("base", {})
    assert len(directory.metrics("base", 3)) == 3
    for steps in (2, 4):
        file.write_text(line * steps)
        with pytest.raises(GradcastError, match=rf"metrics\.jsonl cannot be read \({steps} steps, where 3 were logged"):
            directory.metrics("base", 3)
    (directory.path / "base" / "env.json").write_text("{}")  # of a version that did not count
    assert len(directory.metrics("base", 3)) == 4


def test_other_data_are_another_directory(tmp_path: Path) -> None:
    spec = load("digits")
    assert RunDirectory.create(tmp_path, spec, "a").path != RunDirectory.create(tmp_path, spec, "b").path


def test_a_second_writer_is_refused(directory: RunDirectory) -> None:
    with (
        directory.locked(),
        pytest.raises(GradcastError, match="another process is writing"),
        RunDirectory(directory.path).locked(),
    ):
        pass
    with directory.locked():
        pass


def test_weights_that_cannot_be_written(directory: RunDirectory) -> None:
    (directory.seed("base", 0) / "weights.safetensors").mkdir()
    with pytest.raises(GradcastError, match=r"weights\.safetensors cannot be written"):
        directory.weights("base", 0, {"w": torch.zeros(2)})


def test_json_has_no_infinities() -> None:
    assert json.loads(to_json({"a": [1.0, float("inf")], "b": {"c": float("nan")}})) == {
        "a": [1.0, None],
        "b": {"c": None},
    }


def test_files_are_replaced_as_a_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "one")
    write_text(tmp_path / "a", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "two"


def test_a_full_disk_is_named_and_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_text(tmp_path / "a", "one")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=re.escape(f"No space left on device: '{tmp_path / 'a'}'")):
        write_text(tmp_path / "a", "two")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "one"


def test_tensors_are_readable_like_other_files_and_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / WRITING).mkdir()
    (tmp_path / WRITING / ".tmpAbc").write_text("of a process that was killed")
    write_text(tmp_path / "text", "x")
    write_tensors(tmp_path / "tensors", {"w": torch.ones(2)}, {"said": "yes"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tensors", "text"]
    assert (tmp_path / "tensors").stat().st_mode == (tmp_path / "text").stat().st_mode
    assert torch.equal(load_file(tmp_path / "tensors")["w"], torch.ones(2))
    with safe_open(tmp_path / "tensors", framework="pt") as file:
        assert file.metadata() == {"said": "yes"}
