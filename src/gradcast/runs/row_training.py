"""Trains one row: as many seeds at once as memory holds, recorded as it goes, from where an earlier attempt stopped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from gradcast.head_start.make import Saving
from gradcast.head_start.store import CURVES, TIMES, HeadStart
from gradcast.results.feature_files import write_feature_map
from gradcast.runs import environment
from gradcast.runs.checkpoint.attempt import Attempt, tidy
from gradcast.runs.checkpoint.keeper import Checkpoints, Safety
from gradcast.runs.checkpoint.stop import Stop
from gradcast.runs.directory import RunDirectory
from gradcast.runs.memory_errors import enough_memory
from gradcast.runs.prepared import PreparedRun, RowObserver
from gradcast.runs.recorder import Recorder
from gradcast.runs.reuse import Reuse
from gradcast.runs.stopwatch import Stopwatch
from gradcast.runs.trackers import Tracker
from gradcast.specs.spec import Row, Spec
from gradcast.training.grouping import together
from gradcast.training.loop import Loop, Position
from gradcast.training.schedule_tables import StepsSpec


@dataclass
class RowTraining:
    """One row on its way; ``ahead`` are the head starts of its seeds, where it has them."""

    spec: Spec
    row: Row
    directory: RunDirectory
    shared: PreparedRun
    trackers: Sequence[Tracker]
    safety: Safety
    stop: Stop
    attempt: Attempt
    watch: Stopwatch
    ahead: Mapping[int, HeadStart]
    facts: Mapping[str, object]  # where this happens
    reuse: Reuse  # other seeds of the row, which are trained already
    shown: list[RowObserver] = field(default_factory=list)

    def train_group(self, index: int, loop: Loop) -> None:
        """A group of seeds, to its weights."""
        directory, row, seeds = self.directory, self.row.name, list(loop.seeds)
        both = loop.task == "both"
        recorder = Recorder(directory, row, seeds, self.trackers, every=loop.extent.every, both=both)
        keeper = self._keeper(loop, recorder)
        if keeper.position is None:
            directory.clear(row, seeds)
        self._tell(seeds, () if keeper.position else self.trackers)
        self._show(index, loop, keeper.position)
        try:
            with keeper.answering(), enough_memory(len(seeds)):
                loop.run([recorder, self.watch, *self.shown], keeper)
                recorder.close()
                self._keep(index, loop)
                keeper.close()
                self.attempt.group_done(directory.path / row, self.watch, loop.check.shares())
        finally:
            keeper.close()
            recorder.flush()

    def _keep(self, index: int, loop: Loop) -> None:
        """What was learned, and how the first seed sees images where that is a picture."""
        directory, row = self.directory, self.row.name
        if index == 0 and (found := loop.trainer.feature_map(loop.data)) is not None:
            write_feature_map(directory.seed(row, self.spec.seeds[0]), found)
        state = loop.state()
        for replica, seed in enumerate(loop.seeds):
            directory.weights(row, seed, {name: rows[replica].clone() for name, rows in state.items()})

    def finish(self) -> None:
        """All groups are done: say where and how long, and mark the row as finished."""
        told = {**self.facts, "time": self._times()}
        self.reuse.finish(self.directory, self.row.name, told, self.attempt.files, self.attempt.undone)
        tidy(self.directory.path / self.row.name)

    def _keeper(self, loop: Loop, recorder: Recorder) -> Checkpoints:
        return Checkpoints(
            self.directory.path / self.row.name,
            self.safety,
            self.stop,
            seeds=list(loop.seeds),
            parts={"loop": loop, "recorder": recorder, "watch": self.watch},
            log=recorder,
            facts=self.facts,
            extent=loop.extent,
            device=self.shared.place.device,
            ranks=self.shared.place.ranks,
        )

    def _tell(self, seeds: Sequence[int], trackers: Sequence[Tracker]) -> None:
        """How each seed's head start went, beside its numbers and to whoever tracks them."""
        for seed, made in ((seed, self.ahead[seed]) for seed in seeds if seed in self.ahead):
            told = {name: value for name, value in made.told.items() if name not in TIMES}
            self.directory.head_start(self.row.name, seed, told)
            for tracker, name in product(trackers, CURVES):
                for step, value in made.told.get(name, []):
                    tracker.scalars(self.row.name, seed, step, {f"head_start/{name}": value})

    def _show(self, index: int, loop: Loop, position: Position | None) -> None:
        """The row's bar goes on with this group."""
        if self.shared.display is not None and not self.shown:
            made = self.shared.display.row(self.row.label, loop.extent, len(self.attempt.groups), position)
            self.shown.append(made)
        for observer in self.shown:
            observer.begin(index, position or Position(), loop.seeds)

    def _times(self) -> dict[str, object]:
        """When it began, and what it took."""
        setting, stream = self.row.setting, self.shared.stream(self.row.setting)
        seeds, tasks = len(self.spec.seeds), len(stream.tasks)
        images = None  # where a task ends when it has learned enough
        if isinstance(setting.schedule, StepsSpec):
            images = [setting.schedule.steps * seeds * setting.stream.batch] * tasks
        elif setting.plateau is None:
            images = [seeds * setting.stream.epochs * stream.count(task) for task in range(tasks)]
        at_once = len(self.attempt.groups[0])
        taken = {"started": self.attempt.started, "seeds_at_once": at_once}
        taken |= self.watch.as_dict(images, seeds * setting.stream.batch)
        if self.ahead:
            each = [self.ahead[seed].told for seed in self.spec.seeds]
            taken["head_start"] = [{name: told.get(name) for name in TIMES} for told in each]
        return taken


def train_row(
    spec: Spec,
    row: Row,
    directory: RunDirectory,
    shared: PreparedRun,
    reuse: Reuse,
    trackers: Sequence[Tracker] = (),
    safety: Safety | None = None,
    stop: Stop | None = None,
) -> None:
    """The seeds of one row that are not trained yet, from where an earlier attempt stopped.

    What is done of that is checked before training goes on. Seeds that another run has trained complete the row.
    """
    safety, stop, setting = safety or Safety(), stop or Stop(), row.setting
    attempt = None if safety.start == "fresh" else Attempt.earlier(directory, row.name, spec.seeds)
    if attempt is not None:
        attempt.check(directory.path / row.name)
    with enough_memory(len(spec.seeds)):
        made = shared.head_starts(setting, spec.seeds, Saving(directory.path, safety, stop))
        stream, place = shared.stream(setting), shared.place
        left = together(setting, stream, spec.seeds, place) if attempt is None else attempt.left
        loops = (shared.loop(setting, group, skips=safety.on_nan == "skip") for group in left)
        ready = list(islice(loops, 1))
    attempt = attempt or Attempt.begin(directory, row.name, left)
    describe_stream(directory, row, shared, [*spec.seeds, *reuse.trained])
    ahead = dict(zip(spec.seeds, made, strict=bool(made)))  # nothing where the row has none
    facts, watch = environment.describe(place.device, place.ranks), attempt.watch()
    own = RowTraining(spec, row, directory, shared, trackers, safety, stop, attempt, watch, ahead, facts, reuse)
    for index in range(attempt.done, len(attempt.groups)):
        own.train_group(index, ready.pop() if ready else next(loops))  # nothing else holds it, for memory's sake
    own.finish()


def assemble_row(row: Row, directory: RunDirectory, shared: PreparedRun, reuse: Reuse) -> None:
    """A row whose seeds other runs have trained."""
    directory.start(row.name, list(reuse.trained))
    describe_stream(directory, row, shared, list(reuse.trained))
    reuse.finish(directory, row.name, None, {}, {})
    tidy(directory.path / row.name)


def describe_stream(directory: RunDirectory, row: Row, shared: PreparedRun, seeds: Sequence[int]) -> None:
    """What was drawn to make the row's stream, as the first of its seeds sees it."""
    first = [seed for seed in directory.spec.seeds if seed in seeds][:1]
    told = {**shared.data(row.setting, first).describe(), **shared.content(row.setting), **shared.sizes(row.setting)}
    directory.stream(row.name, told)
