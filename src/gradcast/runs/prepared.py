"""What the rows of a run have in common: streams, test sets and pools, made once for all that use the same."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from gradcast.specs import build
from gradcast.networks import registry as models
from gradcast.data.images import Pixels, Source
from gradcast.data.load import Shelf
from gradcast.devices import Place
from gradcast.epochs import scheduled
from gradcast.epochs.curriculum import Curriculum, Tasks
from gradcast.errors import GradcastError
from gradcast.training.evaluate import Evaluator
from gradcast.training.loop import Extent, Observer, Position, Training
from gradcast.semi import build as semi
from gradcast.signals.registry import NoSignalSpec
from gradcast.specs.spec import Setting
from gradcast.streams.held_out import HeldOut
from gradcast.streams.pool import Pool
from gradcast.streams.stream import Stream


@runtime_checkable
class RowObserver(Observer, Protocol):
    """Shows one row."""

    def begin(self, group: int, position: Position) -> None:
        """A group of seeds begins, or goes on from there."""
        ...


@runtime_checkable
class Display(Protocol):
    """Shows a run to a person."""

    def track(self, rounds: Iterable[Any], what: str, total: int) -> Iterable[Any]:
        """A long loop before training."""
        ...

    def row(self, label: str, extent: Extent, groups: int = 1, start: Position | None = None) -> "RowObserver":
        """A row of so many groups of seeds begins, or goes on from there; the observer hears of its steps."""
        ...

    def skipped(self, label: str) -> None:
        """A row was finished earlier."""
        ...


class PreparedRun:
    """Made once, asked for by setting; ``source`` and ``images`` come from the caller where the setting says so."""

    def __init__(
        self,
        place: Place,
        shelf: Shelf,
        source: Source | None = None,
        images: Pixels | None = None,
        display: Display | None = None,
    ) -> None:
        self.place, self.shelf, self.source, self.images, self.display = place, shelf, source, images, display
        self._streams: dict[str, tuple[Stream, Evaluator]] = {}
        self._curricula: dict[str, Curriculum] = {}
        self._pools: dict[str, Pool | HeldOut] = {}

    def stream(self, setting: Setting) -> tuple[Stream, Evaluator]:
        """The stream and the test sets of its tasks."""
        key = f"{setting.stream.model_dump_json()} {setting.evaluation.drop_last}"
        if key not in self._streams:
            stream = build.stream(setting.stream, self.shelf, self.source)
            tests = [stream.test(task) for task in range(len(stream.tasks))]
            drop_last, place = setting.evaluation.drop_last, self.place
            evaluator = Evaluator(tests, stream.scale, drop_last=drop_last, device=place.device, dtype=place.dtype)
            self._streams[key] = stream, evaluator
        return self._streams[key]

    def tasks(self, setting: Setting) -> Tasks:
        """What a row trains on: a stream that all seeds share or, with a schedule, tasks of each seed's own."""
        if setting.schedule is None:
            return self.stream(setting)[0]
        key = setting.stream.model_dump_json() + setting.schedule.model_dump_json()
        if key not in self._curricula:
            self._curricula[key] = build.curriculum(setting.stream, setting.schedule, self.shelf, self.source)
        return self._curricula[key]

    def loop(self, setting: Setting, seeds: Sequence[int], *, skips: bool = False) -> Training:
        """Everything one row needs, for these seeds; ``skips``: steps that are not finite are undone."""
        tasks, pool = self.tasks(setting), self.pool(setting)
        if setting.semi is not None:
            few = semi.loop(setting, *self.stream(setting), seeds, self.place)
            few.step.skips = skips
            return few
        if isinstance(tasks, Curriculum):
            assert not isinstance(pool, HeldOut)  # a setting sees to that
            return scheduled.loop(setting, tasks, pool, seeds, self.place)
        made = build.loop(setting, tasks, self.stream(setting)[1], pool, seeds, self.place)
        made.step.skips = skips
        return made

    def content(self, setting: Setting) -> dict[str, str]:
        """Which data, weights and code of others a row uses, by digests of them."""
        pool = self.pool(setting)
        found = {"source": self.tasks(setting).content} | ({} if pool is None else {"pool": pool.content})
        return found | models.content(setting.model)

    def pool(self, setting: Setting) -> Pool | HeldOut | None:
        """The pool, where the setting uses one; with few labels, the images without stand in its place."""
        tasks = self.tasks(setting)
        if isinstance(setting.signal, NoSignalSpec) or setting.policy.p == 0 or setting.semi is not None:
            return None
        key = setting.pool.model_dump_json() + setting.stream.model_dump_json()
        if key not in self._pools:
            seed = setting.stream.data_seed
            self._pools[key] = build.pool(
                setting.pool, tasks, self.shelf, self.place, data_seed=seed, images=self.images
            )
        found, batch = self._pools[key], setting.policy.batch
        if len(found) < batch:
            raise GradcastError(
                f"the pool {setting.pool.name!r} has {len(found)} images and a batch of them shall have {batch}; "
                "lower policy.batch, or choose a larger pool"
            )
        return found
