import json
from pathlib import Path

import pytest

from gradcast.runs.checkpoint.attempt import Attempt
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.directory import GROUPS, UNDONE
from gradcast.runs.stopwatch import Stopwatch
from gradcast.training.divergence import FiniteCheck
from tests.runs.checkpoint.scene import ROW, Scene, tiny


def test_a_row_says_what_share_of_its_steps_was_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene, spec = Scene(tmp_path), tiny()
    scene.train(spec, "plain")
    assert UNDONE not in json.loads((scene.directory(spec, "plain").path / ROW / "env.json").read_text())
    monkeypatch.setattr(FiniteCheck, "shares", lambda _: {3: 0.25, 5: 0.0})
    scene.train(spec, "undone")
    assert scene.directory(spec, "undone").undone(ROW) == {3: 0.25}


def test_a_row_that_ends_between_its_weights_and_groups_json_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a full disk or a kill does it."""
    scene, spec = Scene(tmp_path), tiny()
    whole = scene.train(spec, "whole")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "groups.json")

    with monkeypatch.context() as patch:
        patch.setattr(Attempt, "group_done", fail)
        with pytest.raises(OSError, match="No space left"):
            scene.train(spec, "full", Safety(0))
    row = scene.directory(spec, "full").path / ROW
    assert (row / "seed-3" / "weights.safetensors").is_file()
    assert scene.train(spec, "full", Safety(0)) == whole
    assert not (row / GROUPS).exists()
    times = json.loads((row / "env.json").read_text())["time"]
    assert len(times["task_seconds"]) == 3


def test_times_of_evaluations_are_counted_apart(tmp_path: Path) -> None:
    scene, spec = Scene(tmp_path), tiny()
    scene.train(spec, "times")
    times = json.loads((scene.directory(spec, "times").path / ROW / "env.json").read_text())["time"]
    assert 0 < times["evaluation_seconds"] < times["seconds"] - times["training_seconds"] + 0.1
    assert Stopwatch().evaluations == 0.0
