"""The loop: a stream, step by step, with an evaluation of all tasks before it and after each task."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Metrics
from gradcast.signals.policy import Draws
from gradcast.streams.stream import Stream
from gradcast.training.average import Average
from gradcast.training.capture import fastest
from gradcast.training.divergence import FiniteCheck
from gradcast.training.evaluate import Evaluator
from gradcast.training.step import Step

REMEDY = "lower learner.lr, the signal's weight or alpha, or policy.p, or raise learner.qp_eps"


@runtime_checkable
class Observer(Protocol):
    """Who wants to know how the run goes: the store, the progress bar."""

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """A step is done."""
        ...

    def trained(self, task: int) -> None:
        """The task's last step is done, on the device too."""
        ...

    def evaluated(self, tasks_done: int, accuracy: Float[Tensor, "r tasks"]) -> None:
        """A row of the accuracy matrix is known."""
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
    epoch: int | None = None  # batches of one of its epochs, where a task may end after any of them
    told: int = 1  # every so many steps their numbers are kept

    @property
    def steps(self) -> int:
        """In all."""
        return sum(self.batches)

    def before(self, task: int) -> int:
        """Steps that lie before a task."""
        return sum(self.batches[:task])


@runtime_checkable
class Training(Protocol):
    """What a run knows of a loop: R seeds that train together, whichever way."""

    @property
    def seeds(self) -> Sequence[int]:
        """Whose replicas they are."""
        ...

    @property
    def extent(self) -> Extent:
        """How long it takes."""
        ...

    @property
    def parts(self) -> dict[str, object]:
        """What a checkpoint has to remember."""
        ...

    def run(self, observers: Sequence["Observer"], keeper: "Keeper | None" = None) -> None:
        """Train on all tasks in order, from where the keeper says."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All that was learned, by names, one row a replica."""
        ...


@runtime_checkable
class Keeper(Protocol):
    """Who keeps what a run would need to go on later."""

    def begin(self) -> Position | None:
        """Everything is as it was there; None: from the beginning."""
        ...

    def due(self, steps: int) -> bool:
        """Whether to save before this step."""
        ...

    def save(self, position: Position) -> None:
        """The run stands there."""
        ...


@dataclass(frozen=True)
class Loop:
    """Everything one run of R seeds needs."""

    stream: Stream
    step: Step
    evaluator: Evaluator
    seeds: Sequence[int]
    batch: int
    epochs: int
    draws: Draws | None = None
    average: Average | None = None  # evaluated and kept in place of the weights themselves

    @property
    def extent(self) -> Extent:
        """Every batch of every task."""
        tasks = range(len(self.stream.tasks))
        return Extent(tuple(self.epochs * -(-self.stream.count(task) // self.batch) for task in tasks))

    @property
    def parts(self) -> dict[str, object]:
        """Step, draws and average."""
        return {"step": self.step, "draws": self.draws, "average": self.average}

    def state(self) -> dict[str, Tensor]:
        """Of the model, as it is evaluated, and of the signal."""
        with self.shown():
            return {name: rows.clone() for name, rows in self.step.state().items()}

    def run(self, observers: Sequence[Observer], keeper: Keeper | None = None) -> None:
        """Train on all tasks once in order, from where the keeper says."""
        advance, check = fastest(self.step), FiniteCheck(self.seeds, REMEDY)
        start = None if keeper is None else keeper.begin()
        if start is None:
            self._evaluate(0, observers)
            start = Position()
        count, last = start.steps, len(self.stream.tasks) - 1
        for task in range(start.task, last + 1):
            done = start.batches if task == start.task else 0
            for number, batch in enumerate(islice(self._batches(task), done, None), done):
                if keeper is not None and keeper.due(count):
                    check.look(task, skips=self.step.skips)
                    keeper.save(Position(task, number, count))
                unlabelled = self.draws.next(task) if self.draws is not None else None
                metrics = advance(batch, unlabelled)
                if self.average is not None:
                    self.average.follow(self.step.model)
                check.add(count, metrics.pop("finite"), task, skips=self.step.skips)
                for observer in observers:
                    observer.stepped(count, task, metrics)
                count += 1
            check.look(task, skips=self.step.skips)
            for observer in observers:
                observer.trained(task)
            self._evaluate(task + 1, observers)
            if keeper is not None and task < last:
                keeper.save(Position(task + 1, 0, count))

    def shown(self) -> AbstractContextManager[None]:
        """The model has the weights that are evaluated meanwhile."""
        return nullcontext() if self.average is None else self.average.shown(self.step.model)

    def _batches(self, task: int) -> Iterator[Batch]:
        theta = self.step.model.theta
        return self.stream.batches(
            task, self.seeds, batch=self.batch, epochs=self.epochs, device=theta.device, dtype=theta.dtype
        )

    def _evaluate(self, tasks_done: int, observers: Sequence[Observer]) -> None:
        with self.shown():
            accuracy = self.evaluator(self.step.model).cpu()
        for observer in observers:
            observer.evaluated(tasks_done, accuracy)
