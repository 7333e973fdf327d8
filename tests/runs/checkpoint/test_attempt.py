import json
import sys
from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.runs.checkpoint import file
from gradcast.runs.checkpoint.attempt import Attempt, tidy
from gradcast.runs.checkpoint.keeper import FORMAT, Safety
from gradcast.runs.directory import GROUPS, RunDirectory
from gradcast.runs.sealed import digest
from tests.runs.checkpoint.scene import ROW, STEPS, Scene, tiny


def split(monkeypatch: pytest.MonkeyPatch, groups: list[list[int]]) -> None:
    monkeypatch.setattr(sys.modules["gradcast.runs.row_training"], "together", lambda *_: groups)


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
    (tmp_path / ROW / GROUPS).write_text('{"groups": [[1]')
    with pytest.warns(UserWarning, match=r"groups\.json cannot be used .*the row starts over"):
        assert Attempt.earlier(directory, ROW, [1, 2]) is None


def test_time_goes_on(tmp_path: Path) -> None:
    made = Attempt(groups=[[0]], started="2000-01-01", seconds=100.0, task_seconds=[30.0, 20.0])
    watch = made.watch()
    watch.trained(0)
    assert watch.tasks[0] == pytest.approx(30.0, abs=1.0)
    assert watch.taken[0] == pytest.approx(100.0, abs=1.0)
    made.group_done(tmp_path, watch, {0: 0.5})
    assert len(made.task_seconds) == 2
    assert made.undone == {0: 0.5}
    assert made.left == []


def test_a_group_that_loses_a_seed_starts_over_and_those_done_stay(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    made = Attempt.begin(directory, ROW, [[1, 2], [3, 4], [5]])
    (tmp_path / ROW / "checkpoint-4.safetensors").touch()
    made.group_done(tmp_path / ROW, made.watch(), {})
    (tmp_path / ROW / "checkpoint-5.safetensors").touch()
    Attempt.without(directory, ROW, [1, 2, 3, 4, 5], [3, 5])
    assert file.files(tmp_path / ROW) == []
    found = Attempt.earlier(directory, ROW, [1, 2, 4])
    assert found is not None
    assert found.groups == [[1, 2], [4]]
    assert found.left == [[4]]
    Attempt.begin(directory, ROW, [[1], [2]])
    Attempt.without(directory, ROW, [1, 2], [2])  # nothing is done: nothing is left
    assert not (tmp_path / ROW / GROUPS).exists()


def test_damage_to_a_group_that_is_done_is_found_before_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, spec = Scene(tmp_path), tiny(seeds=(3, 8))
    split(monkeypatch, [[3], [8]])
    assert scene.train(spec, "cut", Safety(0), cut=STEPS + 3) is None
    log = scene.directory(spec, "cut").seed(ROW, 3) / "metrics.jsonl"
    whole = log.read_text()
    log.write_text(whole.replace("loss", "lass", 1))
    with pytest.raises(GradcastError, match=r"seed-3/metrics\.jsonl was changed after it was written"):
        scene.train(spec, "cut", Safety(0))
    log.write_text(whole)
    assert scene.train(spec, "cut", Safety(0)) is not None


def test_a_crafted_file_of_groups_is_refused_by_its_schema(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    Attempt.begin(directory, ROW, [[1], [2]])
    path = tmp_path / ROW / GROUPS
    (tmp_path / ROW / "checkpoint-4.safetensors").touch()
    said = {key: value for key, value in json.loads(path.read_text()).items() if key != "digest"}
    for change in ({"groups": [1, 2]}, {"groups": [[]]}, {"done": -1}, {"done": 3}, {"files": {"../x": {}}}, {"x": 1}):
        path.write_text(json.dumps({**said, **change, "digest": digest({**said, **change})}))
        with pytest.warns(UserWarning, match=r"groups\.json cannot be used .*the row starts over"):
            assert Attempt.earlier(directory, ROW, [1, 2]) is None


def test_an_attempt_of_an_earlier_version_is_not_thrown_away(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    Attempt.begin(directory, ROW, [[1]])
    (tmp_path / ROW / GROUPS).write_text('{"groups": [[1]], "started": "2000-01-01", "seconds": 0.0}')
    with pytest.raises(
        GradcastError, match=r"groups\.json was written by another version of gradcast; go on with that"
    ):
        Attempt.earlier(directory, ROW, [1])


def test_tidying_removes_what_only_an_unfinished_row_has(tmp_path: Path) -> None:
    for name in (GROUPS, "checkpoint-4.safetensors", "env.json"):
        (tmp_path / name).touch()
    tidy(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["env.json"]
