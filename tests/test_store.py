import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gradcast.errors import GradcastError
from gradcast.specfile import load
from gradcast.store import Recorder, RunDirectory, to_json, write_text


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    made = RunDirectory.create(tmp_path, load("digits", ["seeds=[0, 7]"]))
    made.start("base", [0, 7])
    return made


def test_the_name_follows_the_specification(tmp_path: Path) -> None:
    one, same = (RunDirectory.create(tmp_path, load("digits")) for _ in range(2))
    other = RunDirectory.create(tmp_path, load("digits", ["learner.lr=0.2"]))
    assert one.path == same.path != other.path
    assert one.path.name.startswith("digits-")
    assert one.spec == load("digits")


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


def test_flush_keeps_what_an_interrupted_run_has(directory: RunDirectory) -> None:
    recorder = Recorder(directory, "base", [0, 7])
    recorder.stepped(0, 0, {"loss": torch.tensor([1.0, 2.0])})
    recorder.flush()
    recorder.flush()
    assert len(directory.metrics("base", 0)) == 1


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
    again.files[0].write_text("")
    with pytest.raises(GradcastError, match=r"metrics.jsonl is shorter than its checkpoint says.*--fresh"):
        again.written = lengths


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
    ("file", "content"),
    [
        ("accuracy.csv", "tasks_done,task_0\n0,abc\n"),
        ("accuracy.csv", ""),
        ("accuracy.csv", "tasks_done,task_0\n0,0.5\n"),
        ("accuracy.csv", "tasks_done,task_0\n0,0.5\n1,nan\n"),
        ("metrics.jsonl", '{"step": 0'),
        ("metrics.jsonl", ""),
        ("metrics.jsonl", "5\n"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt")
def test_damaged_files_are_named(directory: RunDirectory, file: str, content: str) -> None:
    (directory.seed("base", 0) / file).write_text(content)
    read = directory.accuracy if file == "accuracy.csv" else directory.metrics
    with pytest.raises(GradcastError, match=f"{file} cannot be read"):
        read("base", 0)
    with pytest.raises(GradcastError, match="cannot be read"):
        read("base", 7)


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
