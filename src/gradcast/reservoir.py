"""A memory of fixed size for a stream without end: every image seen so far is in it with equal probability."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from gradcast.core import Batch, Replay
from gradcast.environment import sent
from gradcast.randomness import numpy_generator


class Reservoir:
    """One memory a replica, each with random numbers of its own."""

    remembers: ClassVar[tuple[str, ...]] = ("seen", "slots", "draws", "filled")

    def __init__(self, size: int, seeds: Sequence[int]) -> None:
        self.size, self.seen = size, 0
        self.slots = [numpy_generator(seed, "reservoir") for seed in seeds]
        self.draws = [numpy_generator(seed, "replay") for seed in seeds]
        self.kept: Replay | None = None  # its last row is where images go that are not kept
        self.drawn: Replay | None = None  # keeps its place in memory

    def write(self, batch: Batch) -> None:
        """The n-th image seen goes to a random place among n, if the memory has that place."""
        if self.kept is None:
            self.kept = Replay(self._room(batch.x), self._room(batch.y), self._room(batch.y))
        count = batch.x.shape[1]
        places = np.stack([self._places(generator, count) for generator in self.slots])
        index = sent(places, batch.x.device)
        rows = torch.arange(len(batch.x), device=batch.x.device).unsqueeze(1)
        self.kept.x[rows, index] = batch.x
        self.kept.y[rows, index] = batch.y
        self.kept.tasks[rows, index] = batch.task
        self.seen += count

    def _room(self, batch: Shaped[Tensor, "r b *shape"]) -> Shaped[Tensor, "r m *shape"]:
        """For images or labels like these."""
        return batch.new_zeros(len(batch), self.size + 1, *batch.shape[2:])

    @property
    def filled(self) -> tuple[Tensor, ...] | None:
        """Images, labels and tasks that it holds."""
        if self.kept is None:
            return None
        return tuple(each[:, : self.held] for each in (self.kept.x, self.kept.y, self.kept.tasks))

    @filled.setter
    def filled(self, known: tuple[Tensor, ...] | None) -> None:
        self.kept = None if known is None else Replay(*(self._room(each) for each in known))
        if self.kept is not None and known is not None:
            for place, each in zip((self.kept.x, self.kept.y, self.kept.tasks), known, strict=True):
                place[:, : each.shape[1]] = each

    @property
    def held(self) -> int:
        """How many images there are."""
        return min(self.seen, self.size)

    def _places(self, generator: np.random.Generator, count: int) -> Int[np.ndarray, " b"]:
        """While there is room every image gets its own; of several for one place the last stays."""
        order = np.arange(self.seen, self.seen + count)
        places = np.where(order < self.size, order, generator.integers(0, order + 1))
        places = np.minimum(places, self.size)
        _, last = np.unique(places[::-1], return_index=True)
        winners = np.zeros(count, dtype=bool)
        winners[count - 1 - last] = True
        return np.where(winners, places, self.size)

    def draw(self, count: int) -> Replay | None:
        """Random images, different ones where there are enough; None while there are none."""
        held = self.held
        if self.kept is None or held == 0:
            return None
        chosen = np.stack([generator.choice(held, count, replace=held < count) for generator in self.draws])
        index = sent(chosen, self.kept.x.device)
        rows = torch.arange(len(self.draws), device=index.device).unsqueeze(1)
        taken: list[Tensor] = [each[rows, index] for each in (self.kept.x, self.kept.y, self.kept.tasks)]
        if self.drawn is None:
            self.drawn = Replay(*taken)
        for place, new in zip((self.drawn.x, self.drawn.y, self.drawn.tasks), taken, strict=True):
            place.copy_(new)
        return self.drawn
