import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradcast.errors import GradcastError
from gradcast.runs.run import run
from gradcast.runs.trackers import TensorBoard, Tracker, WeightsAndBiases, tracker
from tests.trained_runs import small

SPEC = ("seeds=[3, 5]", "stream.tasks=2")


class Heard:
    """A tracker that checkpointed."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int, int, dict[str, float]]] = []
        self.ended = 0

    def begin(self, directory: Path, settings: Any) -> None:
        self.directory, self.settings = directory, settings

    def scalars(self, row: str, seed: int, step: int, values: Any) -> None:
        self.said.append((row, seed, step, dict(values)))

    def end(self) -> None:
        self.ended += 1

    def where(self) -> str:
        return "here"


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


class Wandb(SimpleNamespace):
    """As much of the package as is used, with a service that accepts everything or nothing."""

    class Error(Exception):
        pass

    def __init__(self, mode: str = "online", *, account: bool = True) -> None:
        super().__init__(Settings=dict, made=[], setup=lambda: SimpleNamespace(settings=SimpleNamespace(mode=mode)))
        self.account = account

    def login(self) -> None:
        if not self.account:
            raise self.Error("No API key configured.")

    def init(self, **options: Any) -> SimpleNamespace:
        own = SimpleNamespace(options=options, logged=[], axes={}, finished=False)
        own.id = options["id"] or f"id-{len(self.made)}"
        own.url = f"https://there/{own.id}"
        own.log = own.logged.append
        own.define_metric = lambda name, step_metric: own.axes.update({name: step_metric})
        own.finish = lambda: setattr(own, "finished", True)
        self.made.append(own)
        return own


def test_weights_and_biases_gets_a_run_for_each_row_and_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    own = WeightsAndBiases()
    directory, _ = run(small(*SPEC), out=tmp_path, device="cpu", trackers=[own])
    assert [made.options["name"] for made in wandb.made[:2]] == ["base-seed-3", "base-seed-5"]
    assert {made.options["group"] for made in wandb.made} == {directory.path.name}
    assert wandb.made[0].options["config"]["seed"] == 3
    assert all(made.finished for made in wandb.made)
    assert wandb.made[0].axes["loss"] == "training_step"
    assert wandb.made[0].axes["accuracy/mean"] == "tasks_done"
    assert {"tasks_done", "training_step"} <= {key for line in wandb.made[0].logged for key in line}
    assert own.where() == f"Weights & Biases: https://there/{wandb.made[-1].id}"


def test_weights_and_biases_goes_on_with_a_run_that_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    for step in (0, 1):
        own = WeightsAndBiases()
        own.begin(tmp_path, {})
        own.scalars("base", 5, step, {"loss": 1.0})
        own.end()
    first, second = wandb.made
    assert (first.options["id"], first.options["resume"]) == (None, None)
    assert (second.options["id"], second.options["resume"]) == (first.id, "allow")


def test_an_account_is_asked_for_before_anything_is_trained_unless_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", Wandb(account=False))
    with pytest.raises(
        GradcastError, match=r"takes no numbers \(No API key configured\.\); log in with 'wandb login', or"
    ):
        tracker("wandb")
    monkeypatch.setitem(sys.modules, "wandb", Wandb("offline", account=False))
    offline = tracker("wandb")
    offline.begin(tmp_path, {})
    assert offline.where() == f"Weights & Biases: not sent yet; wandb sync {tmp_path}/wandb/offline-run-*"
    monkeypatch.setitem(sys.modules, "wandb", Wandb("disabled", account=False))
    assert tracker("wandb").where() == "Weights & Biases: WANDB_MODE is disabled, nothing is sent"


def test_the_package_itself_takes_our_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="pip install 'gradcast[wandb]' to run this")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for step in (0, 1):
        own = WeightsAndBiases()
        own.begin(tmp_path, {"base": {"learner": {"name": "gem"}}})
        own.scalars("base", 5, step, {"loss": 1.0})
        own.scalars("base", 5, step, {"accuracy/mean": 0.5})
        own.end()
    name = (tmp_path / "base" / "seed-5" / "wandb-id").read_text(encoding="utf-8").strip()
    folders = [path.name for path in (tmp_path / "wandb").glob("offline-run-*")]
    assert folders
    assert all(name in folder for folder in folders)


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
