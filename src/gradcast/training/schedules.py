"""Schedules: how long a task trains and at which rates, for R replicas at once."""

from collections.abc import Callable, Iterator
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics
from gradcast.devices import to_device
from gradcast.streams.orders import Order, Passes, Walks
from gradcast.streams.task_data import Portion, TaskData
from gradcast.training.schedule_tables import StepsSpec
from gradcast.training.trainer import Turn

Test = Callable[[int], Float[Tensor, " r"]]  # accuracy on a task's test images


@runtime_checkable
class Schedule(Protocol):
    """What the loop asks of a schedule; ``order`` gives the labelled batches."""

    checkpointed: ClassVar[tuple[str, ...]]
    order: Order
    every: int  # numbers of every so many steps are kept
    may_end_early: bool  # whether a task may be over after any epoch
    only_tasks_over: bool  # whether tasks to come are not evaluated but count as guessed

    def steps(self, task: int) -> int:
        """Batches of a task, at most."""
        ...

    def epoch(self, task: int) -> int:
        """Batches of one pass through it."""
        ...

    def begin(self, task: int) -> None:
        """Before its first batch."""
        ...

    def turns(self, task: int, done: int) -> Iterator[Turn]:
        """What comes after ``done`` batches of the task; asked for one by one."""
        ...

    def after(self, turn: Turn, test: Test) -> Metrics:
        """After a batch: metrics, where an epoch or a test interval is over."""
        ...

    def end(self, task: int) -> None:
        """The task is over."""
        ...

    def first_round(self, task: int) -> Portion:
        """The task's images in the order in which they come first."""
        ...


class Constant:
    """So many passes through every task at one learning rate."""

    checkpointed: ClassVar[tuple[str, ...]] = ("order",)
    every, may_end_early, only_tasks_over = 1, False, False

    def __init__(self, data: TaskData, *, batch: int, epochs: int, lr: float) -> None:
        self.data, self.batch, self.epochs, self.lr = data, batch, epochs, lr
        self.order: Order = Passes(data, batch)

    def steps(self, task: int) -> int:
        """Steps of all passes through a task."""
        return self.epochs * self.epoch(task)

    def epoch(self, task: int) -> int:
        """Steps of one pass through a task."""
        return self.data.length(task, self.batch)

    def begin(self, task: int) -> None:
        """Begin the first pass through a task."""
        self.order.begin(task)

    def turns(self, task: int, done: int) -> Iterator[Turn]:
        """One batch after another."""
        length = self.epoch(task)
        return (Turn(task, n, n // length, n % length, self.lr, numbered=True) for n in range(done, self.steps(task)))

    def after(self, turn: Turn, test: Test) -> Metrics:
        """Nothing follows from a batch."""
        return {}

    def end(self, task: int) -> None:
        """Nothing follows from a task."""

    def first_round(self, task: int) -> Portion:
        """The images of the first pass, in its order."""
        return self.data.first_pass(task)


class Steps:
    """So many steps a task, with warm-up, drops and ramp; labelled images come on an endless walk."""

    checkpointed: ClassVar[tuple[str, ...]] = ("order",)
    may_end_early, only_tasks_over = False, False

    def __init__(self, data: TaskData, spec: StepsSpec, *, batch: int, lr: float) -> None:
        self.data, self.spec, self.batch, self.lr, self.every = data, spec, batch, lr, spec.test_every
        self.order: Order = Walks(data, batch)

    def steps(self, task: int) -> int:
        """The same number in all tasks."""
        return self.spec.steps

    def epoch(self, task: int) -> int:
        """The whole course of a task counts as one."""
        return self.spec.steps

    def begin(self, task: int) -> None:
        """Begin new walks through the labelled and unlabelled images."""
        self.order.begin(task)

    def turns(self, task: int, done: int) -> Iterator[Turn]:
        """One batch after another."""
        for number in range(done, self.spec.steps):
            rate = torch.full(
                (len(self.data.seeds),), self.lr * self.spec.rate(number + 1), dtype=self.data.place.dtype
            )
            lr = to_device(rate, self.data.place.device)
            yield Turn(task, number, 0, number, lr, self.spec.weight(number + 1), numbered=True)

    def after(self, turn: Turn, test: Test) -> Metrics:
        """A look at the test images of the task now and then; nothing is decided by it."""
        return {} if (turn.number + 1) % self.spec.test_every else {"test_accuracy": test(turn.task)}

    def end(self, task: int) -> None:
        """Nothing follows from a task."""

    def first_round(self, task: int) -> Portion:
        """All of them, in the order of the source."""
        return self.data.train(task)
