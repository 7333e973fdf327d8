import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gradcast.errors import GradcastError
from gradcast.runs import manifest
from gradcast.runs.directory import DIVERGED, UNDONE, RunDirectory
from gradcast.runs.manifest import describe, seed_files
from gradcast.runs.recorder import Recorder
from gradcast.specs.text import load
from tests.trained_runs import begun

STEP = '{"step": 0, "task": 0, "loss": 1.0}\n'


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return begun(tmp_path)


def test_the_name_follows_the_specification(tmp_path: Path) -> None:
    one, same = (RunDirectory.named(tmp_path, load("digits")).begin(load("digits")) for _ in range(2))
    other = RunDirectory.named(tmp_path, load("digits", ["learner.lr=0.2"]))
    assert one.path == same.path != other.path
    assert one.path.name.startswith("digits-")
    assert one.spec == load("digits")


def test_a_row_counts_as_finished_only_at_the_end_and_starts_empty(directory: RunDirectory) -> None:
    Recorder(directory, "base", [0, 7]).evaluated(0, torch.zeros(2, 3))
    assert not directory.finished("base")
    directory.start("base", [0, 7])
    assert not (directory.seed("base", 0) / "accuracy.csv").exists()
    directory.finish("base", {"device": "cpu"}, {})
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


def finished(directory: RunDirectory) -> Path:
    """A row of one seed that is finished, and its folder."""
    directory.start("base", [3])
    row = directory.path / "base"
    (row / "seed-3" / "metrics.jsonl").write_text(STEP * 3)
    (row / "seed-3" / "accuracy.csv").write_text("tasks_done,task_0\n0,0.5\n1,0.25\n")
    directory.weights("base", 3, {"w": torch.ones(4)})
    directory.stream("base", {"source": "abc"})
    directory.finish("base", {"device": "cpu"}, describe(row, seed_files([3])))
    return row


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("seed-3/metrics.jsonl", '"loss": 1.0', '"loss": 1.5'),
        ("seed-3/accuracy.csv", "0.25", "0.26"),
        ("stream.json", "abc", "abd"),
    ],
)
def test_one_changed_digit_in_a_finished_row_is_found(directory: RunDirectory, file: str, old: str, new: str) -> None:
    row = finished(directory)
    reads = {"metrics.jsonl": directory.metrics, "accuracy.csv": directory.accuracy}
    name = Path(file).name

    def read() -> object:
        return reads[name]("base", 3) if name in reads else directory.drawn("base")

    read()
    text = (row / file).read_text()
    (row / file).write_text(text.replace(old, new, 1))
    with pytest.raises(GradcastError, match=rf"{name} was changed after it was written .*; delete .*base and run"):
        read()
    (row / manifest.NAME).unlink()  # as rows were finished before there were manifests
    read()


def test_a_finished_row_without_a_file_or_with_another_specification_is_named(directory: RunDirectory) -> None:
    row, spec = finished(directory), directory.path / "spec.toml"
    directory.check("base")
    weights = row / "seed-3" / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(GradcastError, match=r"weights\.safetensors was changed after it was written"):
        directory.check("base")
    weights.unlink()
    with pytest.raises(GradcastError, match=r"weights\.safetensors is missing; delete .*base and run again"):
        directory.check("base")
    weights.write_bytes(whole)
    spec.write_text(spec.read_text().replace("lr = 0.1", "lr = 0.2"))
    with pytest.raises(GradcastError, match=r"spec\.toml was changed after the row was finished"):
        directory.check("base")
    with pytest.warns(UserWarning, match=r"spec\.toml was changed after it was written; it is put back"):
        directory.begin(load("digits", ["seeds=[0, 7]"]))
    directory.check("base")


def test_shares_of_undone_steps_are_read_back_and_checked(directory: RunDirectory) -> None:
    directory.finish("base", {UNDONE: {"0": 0.25}}, {})
    assert directory.undone("base") == {0: 0.25}
    directory.finish("base", {UNDONE: {"0": 2.0}}, {})
    with pytest.raises(GradcastError, match=r"env\.json cannot be read \(a share is not between 0 and 1\)"):
        directory.undone("base")


@pytest.mark.parametrize("text", ['{"3": "step 1"}', None])
def test_diverged_seeds_are_read_with_a_digest_or_as_earlier_runs_have_them(
    directory: RunDirectory, text: str | None
) -> None:
    directory.lose("base", {3: "step 1"})
    file = directory.path / "base" / DIVERGED
    if text:
        file.write_text(text)
    assert directory.diverged("base") == {3: "step 1"}
    if text is None:
        file.write_text(file.read_text().replace('"3"', '"4"'))
        with pytest.raises(GradcastError, match=r"diverged\.json cannot be read \(its digest does not fit\)"):
            directory.diverged("base")


def test_other_data_are_another_directory(tmp_path: Path) -> None:
    spec = load("digits")
    assert RunDirectory.named(tmp_path, spec, "a").path != RunDirectory.named(tmp_path, spec, "b").path


def test_a_second_writer_is_refused(directory: RunDirectory) -> None:
    with (
        directory.locked(),
        pytest.raises(GradcastError, match="another process is writing"),
        RunDirectory(directory.path).locked(),
    ):
        pass
    with directory.locked():
        pass


def test_no_run_is_begun_where_a_name_is_a_link(directory: RunDirectory, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (directory.path / "base" / "seed-0" / "metrics.jsonl").symlink_to(mine)
    with pytest.raises(GradcastError, match=r"metrics\.jsonl is a symbolic link"), directory.locked():
        pass


def test_what_killed_processes_left_goes_with_the_next_lock_but_not_a_page_in_the_making(
    directory: RunDirectory,
) -> None:
    left = directory.path / "base" / "env.json.123.tmp"
    page = directory.path / "report.html.123.tmp"
    for file in (left, page):
        file.touch()
    with directory.locked():
        pass
    assert not left.exists()
    assert page.exists()


def test_weights_that_cannot_be_written_are_named(directory: RunDirectory) -> None:
    (directory.seed("base", 0) / "weights.safetensors").mkdir()
    with pytest.raises(OSError, match=r"weights\.safetensors"):
        directory.weights("base", 0, {"w": torch.zeros(2)})
