"""What the rows of a run have in common: streams, test sets and pools, made once for all that use the same."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from gradcast.data.images import Inputs, Source
from gradcast.data.load import Shelf
from gradcast.data.own_tasks import OwnTasks
from gradcast.data.registry import OWN
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.head_start.course import Course, take_over
from gradcast.head_start.make import Saving, head_starts, stacked
from gradcast.head_start.probe import Probe
from gradcast.head_start.store import HeadStart, Store
from gradcast.learners.registry import LEARNERS
from gradcast.networks import registry as networks
from gradcast.replicas.replicas import Replicas
from gradcast.results.sizes import H_PARAMETERS, POOL_IMAGES
from gradcast.signals.predicted import PredictedSpec, parameters_of_h
from gradcast.signals.registry import SIGNALS
from gradcast.specs import build, build_stream
from gradcast.specs.entry import Registry
from gradcast.specs.frozen_part import frozen_stages
from gradcast.specs.imported import source_file
from gradcast.specs.set_aside import of_every_class, validation_share
from gradcast.specs.spec import Setting
from gradcast.specs.table import Table
from gradcast.streams.frozen_stages import seen_stream
from gradcast.streams.named_augmentations import all_named_by, own_code
from gradcast.streams.own_pool import OwnImages
from gradcast.streams.pool import Pool
from gradcast.streams.stream import Stream
from gradcast.streams.task_data import TaskData
from gradcast.training.evaluate import OwnTests, SharedTests, Tests
from gradcast.training.loop import Extent, Loop, Observer, Position


@runtime_checkable
class RowObserver(Observer, Protocol):
    """Shows the progress of one row."""

    def begin(self, group: int, position: Position, seeds: Sequence[int] = ()) -> None:
        """A group of these seeds begins, or goes on from there."""
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

    def note(self, sentence: str) -> None:
        """Something to know before training."""
        ...


@runtime_checkable
class Planning(Protocol):
    """A display that shows how much of all rows is done, and the time that is left."""

    def plan(self, labels: Sequence[str]) -> None:
        """These rows will be trained."""
        ...

    def leave_out(self, label: str) -> None:
        """One of them needs no training after all."""
        ...


class PreparedRun:
    """Made once, asked for by setting; ``source`` and ``images`` come from the caller where the setting says so."""

    def __init__(
        self,
        place: Place,
        shelf: Shelf,
        source: Source | OwnTasks | None = None,
        images: Inputs | None = None,
        display: Display | None = None,
    ) -> None:
        self.place, self.shelf, self.source, self.images, self.display = place, shelf, source, images, display
        self._streams: dict[str, Stream] = {}
        self._seen: dict[str, Stream] = {}  # behind frozen stages
        self._tests: dict[str, SharedTests] = {}
        self._pools: dict[str, Pool | OwnImages] = {}

    def stream(self, setting: Setting) -> Stream:
        """The tasks of a row."""
        key = setting.stream.model_dump_json()
        if key not in self._streams:
            self._streams[key] = build_stream.stream(setting.stream, self.shelf, self.source)
            if self.display is not None and setting.stream.source in OWN:
                where = setting.stream.path if isinstance(setting.stream.path, str) else "stream.path"
                self.display.note(f"{where or 'your images'}: {self._streams[key].classes_in_words}")
        return self._streams[key]

    def data(self, setting: Setting, seeds: Sequence[int], stream: Stream | None = None) -> TaskData:
        """The tasks of a row as these seeds see them; ``stream`` where it is another than that of the images."""
        stream = stream or self.stream(setting)
        heads, validation = build.heads(setting, stream), validation_share(setting)
        aside = of_every_class(setting, stream)
        return TaskData(stream, seeds, self.place, validation=validation, aside=aside, heads=heads)

    def seen(self, setting: Setting, made: Sequence[HeadStart] = ()) -> Stream:
        """The stream of a row behind the frozen stages of its network, where it has any; made once.

        The frozen stages may come out of the seeds' head starts.
        """
        stream = self.stream(setting)
        if setting.model.train == "all":
            return stream
        parts = setting.stream, setting.model, setting.head_start if made else None
        key = " ".join(repr(part) for part in parts)
        if key not in self._seen:
            frozen = frozen_stages(setting, stream, self.place, made[0].weights if made else {})
            self._seen[key] = seen_stream(stream, frozen, self.place)
        return self._seen[key]

    def loop(self, setting: Setting, seeds: Sequence[int], *, skips: bool = False) -> Loop:
        """Everything one row needs, for these seeds; ``skips``: steps that are not finite are undone."""
        made = self.head_starts(setting, seeds)
        data = self.data(setting, seeds, self.seen(setting, made))

        def prepare(model: Replicas) -> None:
            take_over(model, stacked(made))

        pools = self.pools(setting) if setting.uses_signals else []
        if (frozen := data.stream.scale.frozen) is not None:
            pools = [pool.behind(frozen) for pool in pools]
        tests = self.tests(setting, data)
        return build.loop(setting, data, tests, pools, skips=skips, prepare=prepare if made else None)

    def head_starts(self, setting: Setting, seeds: Sequence[int], saving: Saving | None = None) -> list[HeadStart]:
        """One a seed where the setting asks for them: those that are there already, and the others made now."""
        spec = setting.head_start
        if spec.steps == 0:
            return []
        stream, number = self.stream(setting), setting.pool_of(spec.pool)
        pool, table = self.pools(setting)[number], setting.pool[number]
        shown_by = stream.scale, stream.shape, table.model_dump_json(), pool.content
        own = setting.stream.model_dump_json() if isinstance(pool, OwnImages) else ""
        unseen = networks.unseen(setting.model)
        course = Course(
            spec,
            network=lambda: build.whole_network(setting, stream),
            heads=build.heads(setting, stream),
            shape=stream.shape,
            scale=stream.scale,
            pool=pool,
            place=self.place,
            identity=repr((shown_by, own, unseen) if unseen else (shown_by, own)),
        )
        show = None if self.display is None else self.display.row
        return head_starts(
            course,
            seeds,
            Store(self.shelf.cache),
            probe=lambda group: Probe.of(self.data(setting, group)),
            show=show,
            saving=saving,
        )

    def tests(self, setting: Setting, data: TaskData) -> Tests:
        """The test sets of a row; those that all seeds share are on the device once for all rows."""
        drop_last = setting.evaluation.drop_last
        if data.stream.own_tasks is not None:
            return OwnTests(data, drop_last=drop_last)
        key = f"{setting.stream.model_dump_json()} {drop_last} {id(data.stream)}"
        if key not in self._tests:
            images = [data.stream.test(task) for task in range(data.tasks)]
            self._tests[key] = SharedTests(images, data.stream.scale, drop_last=drop_last, place=self.place)
        return self._tests[key]

    def content(self, setting: Setting) -> dict[str, str]:
        """Which data, weights and code of others a row uses, by digests of them."""
        found = {"source": self.stream(setting).content} | networks.content(setting.model)
        for number, pool in enumerate(self.pools(setting)):
            found["pool" if number == 0 else f"pool {number}"] = pool.content
        ahead = setting.head_start.signal if setting.head_start.steps else []
        shown = [
            setting.stream,
            setting.learner,
            *(setting.pool if self.pools(setting) else ()),
            *setting.signals,
            *ahead,
        ]
        found |= own_code(all_named_by(*shown))
        for registry, tables in ((LEARNERS, [setting.learner]), (SIGNALS, [*setting.signals, *ahead])):
            for number, table in enumerate(tables):
                found |= _code(registry, table, number)
        return found

    def sizes(self, setting: Setting) -> dict[str, object]:
        """How many images each pool has, and how many parameters h; nothing where a row has neither."""
        pools, width = self.pools(setting), build.heads(setting, self.stream(setting)).width
        found: dict[str, object] = {POOL_IMAGES: [len(pool) for pool in pools]} if pools else {}
        learners = [parameters_of_h(own, width) for own in setting.signals if isinstance(own, PredictedSpec)]
        return found | ({H_PARAMETERS: sum(learners)} if learners else {})

    def pools(self, setting: Setting) -> list[Pool | OwnImages]:
        """The pools, where the setting uses any."""
        ahead = setting.head_start
        if not setting.uses_signals and not ahead.steps:
            return []
        stream, found = self.stream(setting), list[Pool | OwnImages]()
        for number, spec in enumerate(setting.pool):
            key = spec.model_dump_json() + setting.stream.model_dump_json()
            if key not in self._pools:
                seed = setting.stream.data_seed
                self._pools[key] = build.pool(spec, stream, self.shelf, self.place, data_seed=seed, images=self.images)
            found.append(self._pools[key])
            batches = {"policy.batch": setting.policy.batch if setting.uses_signals else 0}
            if ahead.steps and number == setting.pool_of(ahead.pool):
                batches["head_start.batch"] = ahead.batch
            for setting_key, batch in batches.items():
                if len(found[-1]) < batch:
                    images = "a single image" if len(found[-1]) == 1 else f"{len(found[-1])} images"
                    raise GradcastError(
                        f"the pool {spec.name!r} has {images} and a batch needs {batch}; "
                        f"lower {setting_key}, or choose a larger pool"
                    )
        return found


def _code(registry: Registry, table: Table, number: int) -> dict[str, str]:
    """A digest of a third party's source, where the method is one's."""
    path = getattr(table, "path", None) if getattr(table, "name", "") == "python" else None
    code = registry.code(table) if path is None else source_file(path, f"{registry.kind}.path")
    name = registry.kind if number == 0 else f"{registry.kind} {number}"
    return {} if code is None else {name: networks.file_digest(code)}
