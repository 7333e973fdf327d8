"""In which order the labelled images of a task come: pass by pass, epoch by epoch, or on an endless walk."""

from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch

from gradcast.core import Batch
from gradcast.randomness import numpy_generator, torch_generator
from gradcast.streams.choose_labels import of_task
from gradcast.streams.task_data import Portion, TaskData
from gradcast.streams.walk import Walk


@runtime_checkable
class Order(Protocol):
    """Gives the batches of a task one after another; every replica has an order of its own."""

    checkpointed: ClassVar[tuple[str, ...]]

    def begin(self, task: int) -> None:
        """Before the task's first batch."""
        ...

    def batch(self, number: int) -> Batch:
        """The batch of this number; asked for in rising order."""
        ...


class Passes:
    """As each seed drew them; every further pass is shuffled anew. A last batch may be short."""

    checkpointed: ClassVar[tuple[str, ...]] = ("task", "order", "shuffles", "generators")

    def __init__(self, data: TaskData, size: int) -> None:
        self.data, self.size = data, size
        self.task = 0
        self.order = np.empty((0, 0), dtype=np.int64)  # of this pass, places in the first one's
        self.shuffles: list[np.random.Generator] = []
        self.generators: list[torch.Generator] = []
        self._shown: Portion | None = None
        self._reset()

    def begin(self, task: int) -> None:
        """The first pass of a task."""
        self.task, self._shown = task, None
        self._reset()

    def _reset(self) -> None:
        seeds = self.data.seeds
        self.shuffles = [numpy_generator(seed, "epochs", self.task) for seed in seeds]
        self.generators = [torch_generator(seed, "augment", self.task) for seed in seeds]
        self.order = np.tile(np.arange(self.data.count(self.task)), (len(seeds), 1))

    def batch(self, number: int) -> Batch:
        """Passes are counted by the batches asked for."""
        length, count = self.data.length(self.task, self.size), self.data.count(self.task)
        epoch, place = divmod(number, length)
        if epoch and place == 0:
            rows = zip(self.order, self.shuffles, strict=True)
            self.order, self._shown = np.stack([row[shuffle.permutation(count)] for row, shuffle in rows]), None
        if self._shown is None or self._shown.task != self.task:
            self._shown = self.data.first_pass(self.task).ordered(self.order)
        cut = self._shown.cut(place * self.size, min((place + 1) * self.size, count))
        return self.data.batch(cut, self.generators, repeated=cut.y.shape[1] if epoch else 0)


class Epochs:
    """Every epoch in an order that depends on nothing but seed, task and epoch. A last batch may be short."""

    checkpointed: ClassVar[tuple[str, ...]] = ("task", "generators")

    def __init__(self, data: TaskData, size: int) -> None:
        self.data, self.size, self.task = data, size, 0
        self.generators = [torch_generator(seed, "augment", 0, 0) for seed in data.seeds]
        self._shown: tuple[tuple[int, int], Portion] | None = None

    def begin(self, task: int) -> None:
        """Begin a task: batches are its own from now on."""
        self.task = task

    def batch(self, number: int) -> Batch:
        """Epochs are counted by the batches asked for."""
        epoch, place = divmod(number, self.data.length(self.task, self.size))
        if place == 0:
            self.generators = [torch_generator(seed, "augment", self.task, epoch) for seed in self.data.seeds]
        if self._shown is None or self._shown[0] != (self.task, epoch):
            self._shown = (self.task, epoch), self.data.epoch(self.task, epoch)
        end = min((place + 1) * self.size, self.data.count(self.task))
        cut = self._shown[1].cut(place * self.size, end)
        return self.data.batch(cut, self.generators, repeated=cut.y.shape[1] if epoch else 0)


class Walks:
    """Shuffled without replacement, and again, without regard to where a batch ends: every batch is full."""

    checkpointed: ClassVar[tuple[str, ...]] = ("task", "walks", "generators")

    def __init__(self, data: TaskData, size: int) -> None:
        self.data, self.size = data, size
        self.begin(0)

    def begin(self, task: int) -> None:
        """New walks: they do not depend on how far those of an earlier task went."""
        self.task, names, seeds = task, of_task(task), self.data.seeds
        self.walks = [Walk(self.data.count(task), numpy_generator(seed, "labelled", *names)) for seed in seeds]
        self.generators = [torch_generator(seed, "labelled", "augment", *names) for seed in seeds]

    def batch(self, number: int) -> Batch:
        """The next images; those of the first round are new."""
        cut = self.data.train(self.task).ordered(np.stack([walk.take(self.size) for walk in self.walks]))
        new = min(max(self.data.count(self.task) - number * self.size, 0), self.size)
        return self.data.batch(cut, self.generators, repeated=self.size - new)
