import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from gradcast.errors import GradcastError
from gradcast.runs.directory import RunDirectory
from gradcast.runs.recorder import Growing, Recorder
from tests.trained_runs import begun


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return begun(tmp_path)


def test_recorder_writes_each_replicas_numbers(directory: RunDirectory) -> None:
    recorder = Recorder(directory, "base", [0, 7])
    recorder.evaluated(0, torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=torch.float64))
    recorder.stepped(0, 0, {"loss": torch.tensor([1.5, 2.5]), "projected": torch.tensor([True, False])})
    recorder.stepped(1, 0, {"loss": torch.tensor([1.0, torch.inf]), "ratio": torch.tensor([torch.nan, 0.25])})
    recorder.evaluated(1, torch.tensor([[0.5, 0.6], [0.7, 0.8]], dtype=torch.float64))
    recorder.evaluated(2, torch.tensor([[0.5, 0.7], [0.9, 1.0]], dtype=torch.float64))
    assert directory.metrics("base", 0) == [
        {"step": 0, "task": 0, "loss": 1.5, "projected": 1.0},
        {"step": 1, "task": 0, "loss": 1.0},
    ]
    assert directory.metrics("base", 7)[1] == {"step": 1, "task": 0, "loss": "inf", "ratio": 0.25}
    assert np.array_equal(directory.accuracy("base", 7), [[0.3, 0.4], [0.7, 0.8], [0.9, 1.0]])
    text = (directory.seed("base", 0) / "accuracy.csv").read_text()
    assert text == "tasks_done,task_0,task_1\n0,0.1,0.2\n1,0.5,0.6\n2,0.5,0.7\n"


def test_of_long_tasks_few_steps_are_kept_and_written_at_once(directory: RunDirectory) -> None:
    recorder = Recorder(directory, "base", [0, 7], every=3)
    for step in range(7):
        recorder.stepped(step, 0, {"loss": torch.tensor([1.0, 2.0])})
    assert [line["step"] for line in directory.metrics("base", 7)] == [2, 5]


def test_flush_keeps_what_an_interrupted_run_has(directory: RunDirectory) -> None:
    recorder = Recorder(directory, "base", [0, 7])
    recorder.stepped(0, 0, {"loss": torch.tensor([1.0, 2.0])})
    recorder.flush()
    recorder.flush()
    assert len(directory.metrics("base", 0)) == 1


def test_a_growing_file_appends_what_waits(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "log")
    growing.push()
    assert not growing.path.exists()
    for word in ("one\n", "tw\u00f6\n"):
        growing.append(word)
        growing.push()
        growing.push()
    assert growing.path.read_text(encoding="utf-8") == "one\ntw\u00f6\n"


def test_half_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    growing = Growing(tmp_path / "log")
    growing.append("one\n")
    growing.push()
    growing.append("two\n")
    real = os.write

    def full(handle: int, content: memoryview) -> int:
        if len(content) < 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, content[:2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"No space left.*log"):
            growing.push()
    assert growing.path.read_text() == "one\n"
    growing.push()
    assert growing.path.read_text() == "one\ntwo\n"


def test_a_full_disk_does_not_end_a_run_and_loses_nothing(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(directory, "base", [0, 7])

    def full(handle: int, content: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        recorder.stepped(0, 0, {"loss": torch.tensor([1.0, 2.0])})
        with pytest.warns(UserWarning, match=r"metrics\.jsonl cannot be written \(No space left on device\): numbers"):
            recorder.flush()
        recorder.stepped(1, 0, {"loss": torch.tensor([3.0, 4.0])})
        with pytest.raises(OSError, match="No space left"):
            recorder.close()
        with pytest.raises(OSError, match="No space left"):  # no checkpoint may speak of numbers that are not there
            _ = recorder.written
    recorder.close()
    assert [line["loss"] for line in directory.metrics("base", 7)] == [2.0, 4.0]
    assert [line["loss"] for line in directory.metrics("base", 0)] == [1.0, 3.0]


def test_files_are_cut_back_to_what_a_checkpoint_knew(directory: RunDirectory) -> None:
    recorder = Recorder(directory, "base", [0, 7])
    recorder.evaluated(0, torch.zeros(2, 3))
    recorder.stepped(0, 0, {"loss": torch.tensor([1.0, 2.0])})
    lengths = recorder.written
    before = [file.read_bytes() for file in recorder.files]
    recorder.stepped(1, 0, {"loss": torch.tensor([3.0, 4.0])})
    recorder.evaluated(1, torch.zeros(2, 3))
    again = Recorder(directory, "base", [0, 7])
    again.written = lengths
    assert [file.read_bytes() for file in again.files] == before
    assert len(before) == 4
    changed = again.files[0].read_text().replace("1.0", "1.5")
    again.files[0].write_text(changed)
    with pytest.raises(GradcastError, match=r"metrics\.jsonl is not what its checkpoint says; start over with --fresh"):
        again.written = lengths
    again.files[0].unlink()
    with pytest.raises(GradcastError, match=r"metrics\.jsonl is missing; start over with --fresh"):
        again.written = lengths


@pytest.mark.parametrize("name", ["../../mine", "/tmp/mine", "seed-0/../../mine", "seed-1/metrics.jsonl"])
def test_names_in_a_checkpoint_are_never_opened(directory: RunDirectory, name: str) -> None:
    mine = directory.path.parent / "mine"
    mine.write_text("mine")
    recorder = Recorder(directory, "base", [0, 7])
    recorder.evaluated(0, torch.zeros(2, 3))
    lengths = recorder.written
    known = next(iter(lengths))
    for crafted in ({**lengths, name: (0, "")}, {name if own == known else own: it for own, it in lengths.items()}):
        with pytest.raises(ValueError, match="names other files"):
            recorder.written = crafted
    assert mine.read_text() == "mine"


def test_a_file_that_is_deleted_or_edited_while_it_grows_ends_the_run(directory: RunDirectory) -> None:
    recorder = Recorder(directory, "base", [0, 7])
    recorder.evaluated(0, torch.zeros(2, 3))
    file = directory.seed("base", 0) / "accuracy.csv"
    file.write_text(file.read_text() + "x")
    with pytest.raises(GradcastError, match=r"accuracy\.csv has \d+ bytes and not the \d+ that were written"):
        recorder.evaluated(1, torch.zeros(2, 3))
    shutil.rmtree(file.parent)
    with pytest.raises(GradcastError, match=r"seed-0 was deleted while it was written; the same command starts over"):
        recorder.evaluated(1, torch.zeros(2, 3))
