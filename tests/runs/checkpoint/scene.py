"""A tiny stream on which a row is trained, cut off and trained on."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradcast.core import Metrics
from gradcast.data.cache import Cache
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.learners.registry import LEARNERS
from gradcast.runs.cell_key import cell_key
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.checkpoint.stop import Stop
from gradcast.runs.directory import RunDirectory
from gradcast.runs.prepared import PreparedRun
from gradcast.runs.reuse import Reuse
from gradcast.runs.row_training import train_row
from gradcast.specs.spec import Spec
from gradcast.specs.text import assign, parse
from gradcast.training.loop import Extent, Position

TINY = (
    "stream.tasks=3",
    "stream.samples=15",
    "stream.batch=5",
    "stream.epochs=2",
    "stream.augment=['crop', 'jitter']",
    "model.hidden=[8]",
    "pool.count=30",
    "pool.augment=['flip']",
    "policy.p=0.6",
    "policy.batch=4",
)
OWN = {
    "icarl": ["learner.memory=60"],  # of all classes of all tasks
    "bic": ["learner.memory=20", "stream.samples=25", "model.heads=masked"],  # ten images of a task are set aside
    "icarl-original": ["learner.memory=12", "model.heads=masked"],
    "lucir": ["learner.memory=12", "model.heads=masked"],
    "cfa": ["learner.memory=12", "model.heads=masked"],
    "x-der": ["learner.memory=12", "learner.images=8", "model.heads=masked"],
}
STEPS = 18
ROW = "run"


class Cut(Exception):
    """The end, in the middle of everything."""


class Cutting:
    """A display that ends a row after so many steps of this attempt."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def row(self, label: str, extent: Extent, groups: int = 1, start: Position | None = None) -> "Cutting":
        return self

    def begin(self, group: int, position: Position, seeds: Sequence[int] = ()) -> None: ...

    def track(self, rounds: Iterable[Any], what: str, total: int) -> Iterable[Any]:
        return rounds

    def skipped(self, label: str) -> None: ...
    def note(self, sentence: str) -> None: ...

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        self.left -= 1
        if self.left == 0:
            raise Cut

    def trained(self, task: int) -> None: ...

    def evaluated(self, tasks_done: int, accuracy: Tensor, unknown: Tensor | None = None) -> None: ...


def tiny(*settings: str, seeds: tuple[int, ...] = (3, 5)) -> Spec:
    """A specification of one row."""
    named = {setting.split(".")[0] for setting in settings if setting.startswith(("model.name=", "pool.name="))}
    common = [setting for setting in TINY if setting.split(".")[0] not in named]
    learner = next((own.partition("=")[2] for own in settings if own.startswith("learner.name=")), "gem")
    memory = ["learner.memory=12"] if "memory" in LEARNERS[learner].table.model_fields else []
    memory = OWN.get(learner, memory)
    if any(setting.startswith("schedule.") for setting in settings):
        common = [setting for setting in common if not setting.startswith("stream.epochs")]
    content: dict[str, Any] = {"name": "tiny", "seeds": list(seeds)}
    for setting in (*common, f"learner.name={learner}", *memory, *settings):
        content = assign(content, setting)
    return parse(content)


class Scene:
    """Trains rows; whatever happens, the directory stays."""

    def __init__(self, out: Path, device: str = "cpu") -> None:
        self.out = out
        self.shared = PreparedRun(
            Place(torch.device(device), torch.float32), Shelf(out, Cache(out / "cache"), untracked)
        )

    def directory(self, spec: Spec, place: str) -> RunDirectory:
        return RunDirectory.named(self.out / place, spec).begin(spec)

    def train(
        self, spec: Spec, place: str, safety: Safety | None = None, cut: int | None = None, stop: Stop | None = None
    ) -> dict[str, bytes] | None:
        """What the row's seeds have in their directories, or None where it was cut off."""
        directory = self.directory(spec, place)
        self.shared.display = None if cut is None else Cutting(cut)
        try:
            reuse = Reuse(cell_key(spec.rows[0].setting, spec.dtype, {}), None)
            train_row(spec, spec.rows[0], directory, self.shared, reuse, (), safety or Safety(0), stop)
        except Cut:
            return None
        return results(directory.path / ROW)

    def with_cuts(self, spec: Spec, place: str, chance: random.Random) -> dict[str, bytes]:
        """The same, cut off twice at random, with checkpoints every few steps."""
        safety, setting = Safety(0, chance.randint(1, 4)), spec.rows[0].setting
        half = self.shared.loop(setting, spec.seeds).extent.batches[0] // 2
        for _ in range(2):
            assert self.train(spec, place, safety, chance.randint(1, half - 1)) is None
        done = self.train(spec, place, safety)
        assert done is not None
        return done


def results(row: Path) -> dict[str, bytes]:
    """All bytes that must not depend on interruptions."""
    return {f"{path.parent.name}/{path.name}": path.read_bytes() for path in sorted(row.glob("seed-*/*"))}
