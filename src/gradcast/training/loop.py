"""The loop: tasks in order, batch by batch, with an evaluation of all tasks before the stream and after each task."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Feeds, Metrics
from gradcast.devices import to_device
from gradcast.replicas.heads import TaskKnowledge
from gradcast.streams.draws import Draws
from gradcast.streams.task_data import TaskData
from gradcast.training.average import Average, shown
from gradcast.training.divergence import FiniteCheck
from gradcast.training.evaluate import Tests
from gradcast.training.schedules import Schedule
from gradcast.training.trainer import Trainer, Turn

REMEDY = (
    "lower learner.lr, the signal's weight or alpha, or policy.p, set signal.scaled for noise, or raise learner.qp_eps "
    "or schedule.warm_up"
)


@runtime_checkable
class Observer(Protocol):
    """Is told how a run goes: the store, the progress bar."""

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """A step is done."""
        ...

    def trained(self, task: int) -> None:
        """The task's last step is done, on the device too."""
        ...

    def evaluated(
        self, tasks_done: int, accuracy: Float[Tensor, "r tasks"], unknown: Float[Tensor, "r tasks"] | None = None
    ) -> None:
        """A row of the accuracy matrix is known, and of that without the task where there is one."""
        ...


@dataclass(frozen=True)
class Position:
    """Where a run stands: before a step, with every evaluation up to there done."""

    task: int = 0
    batches: int = 0  # of the task, done
    steps: int = 0  # in all


@dataclass(frozen=True)
class Extent:
    """How long a run is, at most."""

    batches: tuple[int, ...]  # of every task
    epochs: tuple[int, ...] = ()  # batches of an epoch of every task, where a task may end after any of them
    every: int = 1  # numbers of every so many steps are kept

    @property
    def steps(self) -> int:
        """Steps of the whole stream."""
        return sum(self.batches)

    def before(self, task: int) -> int:
        """Steps that lie before a task."""
        return sum(self.batches[:task])

    def holds(self, position: Position) -> bool:
        """Whether a run of this length can stand there; a task that may end early leaves fewer steps behind it."""
        task, steps = position.task, position.steps - position.batches
        inside = task < len(self.batches) and position.batches < max(self.batches[task], 1)
        return inside and (0 <= steps <= self.before(task) if self.epochs else steps == self.before(task))


@runtime_checkable
class Keeper(Protocol):
    """Saves checkpoints, from which a run can go on."""

    def begin(self) -> Position | None:
        """Restore the newest checkpoint and return its position; None: start at the beginning."""
        ...

    def due(self, steps: int) -> bool:
        """Whether to save before this step."""
        ...

    def save(self, position: Position) -> None:
        """Save a checkpoint of the run at this position."""
        ...


@dataclass(frozen=True)
class ShownImages:
    """A task's labelled images, for learners."""

    loop: "Loop"
    task: int

    def batches(self, size: int) -> Iterator[Batch]:
        """In the order in which they come first, without augmentation."""
        return self.loop.data.batches(self.loop.schedule.first_round(self.task), size)


@dataclass
class Loop:
    """Everything one run of R seeds needs."""

    checkpointed: ClassVar[tuple[str, ...]] = ("trainer", "schedule", "draws", "average", "check")
    data: TaskData
    trainer: Trainer
    schedule: Schedule
    tests: Tests
    draws: Draws | None = None
    average: Average | None = None  # evaluated and kept in place of the weights themselves
    task: TaskKnowledge = "known"  # of a test image
    check: FiniteCheck = field(init=False)

    def __post_init__(self) -> None:
        schedule = self.schedule
        every = schedule.epoch(0) if schedule.may_end_early else schedule.every
        self.check = FiniteCheck(self.seeds, REMEDY, every=every)

    @property
    def seeds(self) -> Sequence[int]:
        """Whose replicas they are."""
        return self.data.seeds

    @property
    def extent(self) -> Extent:
        """Every batch of every task."""
        schedule = self.schedule
        tasks = range(self.data.tasks)
        epochs = tuple(map(schedule.epoch, tasks)) if schedule.may_end_early else ()
        return Extent(tuple(map(schedule.steps, tasks)), epochs, schedule.every)

    def state(self) -> dict[str, Tensor]:
        """All that was learned as it is evaluated, by names, one row a replica; and which images kept their label."""
        with shown(self.average, self.trainer.model):
            learned = {name: rows.clone() for name, rows in self.trainer.state().items()}
        stream, tasks = self.data.stream, self.data.tasks
        for task in range(tasks) if stream.labels is not None else ():
            places = np.stack([stream.labelled(task, seed) for seed in self.seeds])
            learned["labelled" if tasks == 1 else f"labelled-{task}"] = torch.from_numpy(places)
        return learned

    def run(self, observers: Sequence[Observer], keeper: Keeper | None = None) -> None:
        """Train on all tasks in order, from where the keeper says."""
        start = None if keeper is None else keeper.begin()
        if start is None:
            self._evaluate(0, observers)
            start = Position()
        count, last = start.steps, self.data.tasks - 1
        for task in range(start.task, last + 1):
            done = start.batches if task == start.task else 0
            if done == 0:
                self._begin(task)
            for turn in self.schedule.turns(task, done):
                if keeper is not None and keeper.due(count):
                    self._look(task)
                    keeper.save(Position(task, turn.number, count))
                self._train(turn, count, observers)
                count += 1
            self._look(task)
            self.schedule.end(task)
            with shown(self.average if self.trainer.by_task else None, self.trainer.model):
                self.trainer.finish(ShownImages(self, task))  # what is the task's own is set aside as it is evaluated
            for observer in observers:
                observer.trained(task)
            self._evaluate(task + 1, observers)
            if keeper is not None and task < last:
                keeper.save(Position(task + 1, 0, count))

    def _begin(self, task: int) -> None:
        self.trainer.begin(ShownImages(self, task))
        if self.average is not None and self.trainer.by_task:  # weights of the task's own are new
            self.average.restart(self.trainer.model, torch.ones(len(self.seeds), dtype=torch.bool))
        self.schedule.begin(task)
        if self.draws is not None:
            self.draws.begin(task)

    def _train(self, turn: Turn, count: int, observers: Sequence[Observer]) -> None:
        """Train on one labelled batch, and tell the observers."""

        def draw() -> Feeds:
            return () if self.draws is None else self.draws.next(turn.task, turn.place, turn.going)

        metrics = self.trainer.step(self.schedule.order.batch(turn.number), draw, turn)
        if self.average is not None:
            self.average.follow(self.trainer.model)
        finite = metrics.pop("finite") != 0  # a graph tells numbers
        going = None if turn.going is None else to_device(turn.going, finite.device)
        if going is not None:
            finite = finite | ~going
        self.check.add(count, finite, self._number(turn.task), skips=self.trainer.skips)
        if self.schedule.may_end_early and turn.place + 1 == self.schedule.epoch(turn.task):
            self._look(turn.task)  # before a validation decides by what is not finite
        metrics |= self.schedule.after(turn, self._test)
        if going is not None:
            metrics = {name: torch.where(going.to(value.device), value, torch.nan) for name, value in metrics.items()}
        for observer in observers:
            observer.stepped(count, turn.task, metrics)

    def _look(self, task: int) -> None:
        self.check.look(self._number(task), skips=self.trainer.skips)

    def _number(self, task: int) -> int | None:
        """A task's number for messages; the only task needs none."""
        return task if self.data.tasks > 1 else None

    def _test(self, task: int) -> Float[Tensor, " r"]:
        with shown(self.average, self.trainer.model):
            return self.tests(self.trainer, range(task, task + 1))[:, 0]

    def _evaluate(self, tasks_done: int, observers: Sequence[Observer]) -> None:
        """Tasks that have no weights yet count as guessed."""
        tasks, guessed = self.data.tasks, self.schedule.only_tasks_over or self.trainer.by_task
        chance = torch.tensor([self.data.stream.chance(task) for task in range(tasks)], dtype=torch.float64)
        known, unknown = chance.repeat(len(self.seeds), 1), torch.zeros(len(self.seeds), tasks, dtype=torch.float64)
        done = range(tasks_done if guessed else tasks)
        with shown(self.average, self.trainer.model):
            if self.task == "known":
                known[:, : len(done)] = self.tests(self.trainer, done).cpu()
            else:
                both = self.tests.both(self.trainer, done, tasks_done)
                known[:, : len(done)], unknown[:, : len(done)] = (own.cpu() for own in both)
        first = unknown if self.task == "unknown" else known
        for observer in observers:
            observer.evaluated(tasks_done, first, unknown if self.task == "both" else None)
