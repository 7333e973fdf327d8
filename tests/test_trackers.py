import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradcast.errors import GradcastError
from gradcast.run import run
from gradcast.trackers import TensorBoard, Tracker, WeightsAndBiases, tracker
from tests.runs import small

SPEC = ("seeds=[3, 5]", "stream.tasks=2")


class Heard:
    """A tracker that remembers."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int, int, dict[str, float]]] = []
        self.ended = 0

    def begin(self, directory: Path, settings: Any) -> None:
        self.directory, self.settings = directory, settings

    def scalars(self, row: str, seed: int, step: int, values: Any) -> None:
        self.said.append((row, seed, step, dict(values)))

    def end(self) -> None:
        self.ended += 1


def test_a_tracker_hears_what_the_run_directory_holds(tmp_path: Path) -> None:
    heard = Heard()
    directory, results = run(small(*SPEC), out=tmp_path, device="cpu", trackers=[heard])
    assert isinstance(heard, Tracker)
    assert heard.directory == directory.path
    assert heard.settings["base"]["stream"]["tasks"] == 2
    assert heard.ended == 1
    for result in results:
        for place, seed in enumerate(result.seeds):
            own = [(step, values) for row, s, step, values in heard.said if (row, s) == (result.name, seed)]
            steps = [(step, values) for step, values in own if "loss" in values]
            lines = directory.metrics(result.name, seed)
            assert [(line["step"], line["loss"]) for line in lines] == [(step, v["loss"]) for step, v in steps]
            accuracy = [values["accuracy/mean"] for _, values in own if "accuracy/mean" in values]
            assert accuracy == pytest.approx(result.matrices[place].mean(1), abs=1e-6)


def test_weights_and_biases_gets_a_run_for_each_row_and_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SimpleNamespace] = []

    def init(**options: Any) -> SimpleNamespace:
        own = SimpleNamespace(options=options, logged=[], finished=False)
        own.log = own.logged.append
        own.finish = lambda: setattr(own, "finished", True)
        made.append(own)
        return own

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    directory, _ = run(small(*SPEC), out=tmp_path, device="cpu", trackers=[WeightsAndBiases()])
    assert [own.options["name"] for own in made[:2]] == ["base-seed-3", "base-seed-5"]
    assert {own.options["group"] for own in made} == {directory.path.name}
    assert made[0].options["config"]["seed"] == 3
    assert all(own.finished for own in made)
    assert {"tasks_done", "training_step"} <= {key for line in made[0].logged for key in line}


@pytest.fixture
def reader() -> Any:
    return pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="pip install 'gradcast[tensorboard]' to run this",
    )


def test_tensorboard_shows_no_step_twice_after_a_resume(tmp_path: Path, reader: Any) -> None:
    for first in (0, 3):  # the second attempt goes on from a checkpoint before the end of the first
        board = TensorBoard()
        board.begin(tmp_path, {})
        for step in range(first, 6):
            board.scalars("base", 5, step, {"loss": first + step / 10})
        board.end()
    events = reader.EventAccumulator(str(tmp_path / "tensorboard" / "base" / "seed-5"))
    events.Reload()
    said = [(event.step, event.value) for event in events.Scalars("loss")]
    assert said == [(step, pytest.approx((3 if step >= 3 else 0) + step / 10)) for step in range(6)]


def test_tensorboard_files_hold_the_losses(tmp_path: Path, reader: Any) -> None:
    directory, _ = run(small(*SPEC), out=tmp_path, device="cpu", trackers=[TensorBoard()])
    events = reader.EventAccumulator(str(directory.path / "tensorboard" / "base" / "seed-5"))
    events.Reload()
    losses = [event.value for event in events.Scalars("loss")]
    assert losses == pytest.approx([line["loss"] for line in directory.metrics("base", 5)], rel=1e-6)
    assert [event.step for event in events.Scalars("accuracy/mean")] == [0, 1, 2]


@pytest.mark.parametrize(("name", "package"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_package_is_named_with_its_remedy(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(GradcastError, match=rf"pip install 'gradcast\[{name}\]'"):
        tracker(name)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(GradcastError, match="did you mean 'wandb'"):
        tracker("wandbb")
