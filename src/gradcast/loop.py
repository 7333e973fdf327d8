"""The loop: a stream, step by step, with an evaluation of all tasks before it and after each task."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.average import Average
from gradcast.capture import fastest
from gradcast.core import Batch, Metrics
from gradcast.errors import Diverged
from gradcast.evaluate import Evaluator
from gradcast.signals.policy import Draws
from gradcast.step import Step
from gradcast.streams.stream import Stream

CHECKED = 25  # steps between looks at the device: every look waits for it
HOPELESS = 10  # steps that were undone one after another: there is no use in more of them
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
        advance, unchecked = fastest(self.step), list[tuple[int, Tensor]]()
        start = None if keeper is None else keeper.begin()
        if start is None:
            self._evaluate(0, observers)
            start = Position()
        count, last = start.steps, len(self.stream.tasks) - 1
        for task in range(start.task, last + 1):
            done = start.batches if task == start.task else 0
            for number, batch in enumerate(islice(self._batches(task), done, None), done):
                if keeper is not None and keeper.due(count):
                    self._check(unchecked, task)
                    keeper.save(Position(task, number, count))
                unlabelled = self.draws.next() if self.draws is not None else None
                metrics = advance(batch, unlabelled)
                if self.average is not None:
                    self.average.follow(self.step.model)
                unchecked.append((count, metrics.pop("finite")))
                for observer in observers:
                    observer.stepped(count, task, metrics)
                if len(unchecked) == CHECKED:
                    self._check(unchecked, task)
                count += 1
            self._check(unchecked, task)
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

    def _check(self, unchecked: list[tuple[int, Tensor]], task: int) -> None:
        """Stop where loss or weights were not finite (the first step is named), or where only such steps are left."""
        if not unchecked:
            return
        spoiled = torch.stack([finite for _, finite in unchecked]) == 0
        bad = spoiled.nonzero().tolist()
        if bad:
            step, seed = unchecked[bad[0][0]][0], self.seeds[bad[0][1]]
            where = f"loss or weights are not finite at step {step} (task {task}, seed {seed})"
            if not self.step.skips or (len(unchecked) >= HOPELESS and spoiled.all(0).any()):
                raise Diverged(f"{where}: training diverged; {REMEDY}")
            warnings.warn(f"{where}: {len(bad)} of the latest {spoiled.numel()} steps were undone", stacklevel=2)
        unchecked.clear()
