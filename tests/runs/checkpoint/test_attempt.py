import sys
from pathlib import Path

import pytest

from gradcast.runs.checkpoint import file
from gradcast.runs.checkpoint.attempt import NAME, Attempt
from gradcast.runs.checkpoint.keeper import FORMAT, Safety
from gradcast.runs.directory import RunDirectory
from tests.runs.checkpoint.scene import ROW, STEPS, Scene, tiny


def split(monkeypatch: pytest.MonkeyPatch, groups: list[list[int]]) -> None:
    monkeypatch.setattr(sys.modules["gradcast.runs.run"], "together", lambda *_: groups)


def test_groups_stay_as_they_were_and_those_done_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, spec = Scene(tmp_path), tiny(seeds=(3, 5, 8))
    split(monkeypatch, [[3, 5], [8]])
    whole = scene.train(spec, "whole")
    assert scene.train(spec, "cut", Safety(0), cut=STEPS + 3) is None
    row = scene.directory(spec, "cut").path / ROW
    file.write(row, 900, file.Content({"format": FORMAT, "seeds": [3, 5]}, {}))  # of the group that is done
    assert scene.train(spec, "cut", Safety(0, 2), cut=5) is None
    assert [path.stem for path in file.files(row)] == ["checkpoint-4", "checkpoint-2"]
    weights = scene.directory(spec, "cut").seed(ROW, 5) / "weights.safetensors"
    before = weights.stat().st_mtime_ns
    split(monkeypatch, [[3], [5], [8]])  # less memory today
    assert scene.train(spec, "cut") == whole
    assert weights.stat().st_mtime_ns == before


def test_what_is_not_worth_going_on_from(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert Attempt.earlier(directory, ROW, [1, 2]) is None
    made = Attempt.begin(directory, ROW, [[1], [2]])
    assert Attempt.earlier(directory, ROW, [1, 2]) is None  # nothing was trained
    (tmp_path / ROW / "checkpoint-4.safetensors").touch()
    assert Attempt.earlier(directory, ROW, [1, 2]) == made
    (tmp_path / ROW / NAME).write_text('{"groups": [[1]')
    with pytest.warns(UserWarning, match=r"groups\.json is damaged .*the row starts over"):
        assert Attempt.earlier(directory, ROW, [1, 2]) is None


def test_time_goes_on(tmp_path: Path) -> None:
    made = Attempt([[0]], "2000-01-01", 100.0, [30.0, 20.0])
    watch = made.watch()
    watch.trained(0)
    assert watch.tasks[0] == pytest.approx(30.0, abs=1.0)
    assert watch.taken[0] == pytest.approx(100.0, abs=1.0)
    made.group_done(tmp_path, watch)
    assert made.task_seconds is not None
    assert len(made.task_seconds) == 2


def test_a_group_that_loses_a_seed_starts_over_and_those_done_stay(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    Attempt.begin(directory, ROW, [[1, 2], [3, 4], [5]])
    for seed in (1, 2):
        (directory.seed(ROW, seed) / "weights.safetensors").touch()
    (tmp_path / ROW / "checkpoint-4.safetensors").touch()
    Attempt.without(directory, ROW, [1, 2, 3, 4, 5], [3, 5])
    assert file.files(tmp_path / ROW) == []
    found = Attempt.earlier(directory, ROW, [1, 2, 4])
    assert found is not None
    assert found.groups == [[1, 2], [4]]
    for seed in (1, 2):
        (directory.seed(ROW, seed) / "weights.safetensors").unlink()
    Attempt.without(directory, ROW, [1, 2, 4], [4])  # nothing is done: nothing is left
    assert not (tmp_path / ROW / NAME).exists()
