"""A memory of fixed size that all classes so far share equally, refilled when a task ends."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradcast.core import Batch, Replay
from gradcast.devices import to_device
from gradcast.memories.slots import Slots
from gradcast.randomness import numpy_generator
from gradcast.replicas.heads import Heads

NOBODY = -1  # the set of an empty slot
SHUFFLED = 3  # the turn of drawing after those of a step


@dataclass(frozen=True)
class Drawn:
    """Images for the passes of a step; all of it keeps its place in memory."""

    dark: Replay  # for their logits
    known: Replay  # for their labels
    further: Replay
    once: Float[Tensor, "r m"]  # of dark and known images: 0 where an image comes again
    slots: Int[Tensor, "r m"]  # of dark and known images that are edited; others have the slot of what is not kept


class RefilledMemory:
    """A set of images for every class of every task that is over, ``size`` in all; one memory a replica.

    When a task ends, each earlier set keeps its first ``size // sets`` images, and the classes of the task share the
    rest: the first images of each that come. Which image lies where is known to the host. ``uses`` counts how often
    each was replayed since then.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("done", "owner", "uses", "draws", "filled")

    def __init__(self, heads: Heads, size: int, seeds: Sequence[int]) -> None:
        self.heads, self.size = heads, size
        self.ends = list(accumulate(len(columns) for columns in heads.task_columns))  # of every task's sets
        self.done = 0  # tasks that are over
        self.owner = np.full((len(seeds), size), NOBODY)  # the set of every slot
        self.uses = np.zeros((len(seeds), size), np.int64)
        self.draws = [numpy_generator(seed, "replay") for seed in seeds]
        self.places = Slots(size)
        self.drawn: Drawn | None = None  # of the latest step

    def draw_step(self, count: int, further: int) -> Drawn | None:
        """Twice ``count`` random images and ``further`` ones; None while there are none."""
        if not self.done:
            return None
        chosen = [self.draw(many) for many in (count, count, min(further, self.size))]
        dark, known, others = (self.take(slots, turn) for turn, slots in enumerate(chosen))
        both = np.concatenate(chosen[:2], 1)
        first, edited = self.use(both)
        once = to_device(first, dark.x.device).to(dark.x.dtype)
        slots = to_device(np.where(edited, both, self.size), dark.x.device)
        if self.drawn is not None:
            once, slots = self.drawn.once.copy_(once), self.drawn.slots.copy_(slots)
        self.drawn = Drawn(dark, known, others, once, slots)
        return self.drawn

    def draw(self, count: int) -> Int[np.ndarray, "r m"]:
        """Slots of random images; none comes twice before every other came once."""
        return np.stack(
            [np.resize(draw.permutation(held), count) for draw, held in zip(self.draws, self._held(), strict=True)]
        )

    def take(self, slots: Int[np.ndarray, "r m"], turn: int = 0) -> Replay:
        """The content of these slots; each turn of a step has its own buffers."""
        return self.places.take(list(slots), turn)

    def use(self, slots: Int[np.ndarray, "r m"]) -> tuple[Bool[np.ndarray, "r m"], Bool[np.ndarray, "r m"]]:
        """Which of these are an image's first appearance among them, and which of those are drawn to be edited.

        The probability is 1 / n when an image is used for the n-th time since the last refill.
        """
        once = np.zeros(slots.shape, bool)
        for own, first, uses in zip(slots, once, self.uses, strict=True):
            first[np.unique(own, return_index=True)[1]] = True
            uses[own[first]] += 1
        coins = np.stack([draw.random(slots.shape[1]) for draw in self.draws])
        return once, once & (coins * np.take_along_axis(self.uses, slots, 1) < 1)

    def shrink(self, task: int) -> Int[np.ndarray, "r classes"]:
        """A task is over: earlier sets make room; returns how many images each class of the task gets."""
        share, width = self.size // self.ends[task], len(self.heads.task_columns[task])
        rooms = np.zeros((len(self.owner), width), np.int64)
        for own, room, draw in zip(self.owner, rooms, self.draws, strict=True):
            for number in range(self.ends[task] - width):
                own[np.flatnonzero(own == number)[share:]] = NOBODY
            free = np.count_nonzero(own == NOBODY)
            room[:] = free // width
            room[draw.permutation(width)[: free % width]] += 1
        self.uses[:] = 0
        self.done = task + 1
        return rooms

    def write(self, batch: Batch, rooms: Int[np.ndarray, "r classes"], fields: Mapping[str, Tensor]) -> None:
        """Images of the task go to free slots as far as their classes have room, which becomes less."""
        own = torch.where(batch.each_task == batch.task, self.heads.places(batch.y, batch.task), -1).cpu().numpy()
        slots = np.full(own.shape, self.size)
        first = self.ends[batch.task] - rooms.shape[1]
        for labels, chosen, owner, room in zip(own, slots, self.owner, rooms, strict=True):
            free = iter(np.flatnonzero(owner == NOBODY))
            for place, label in enumerate(labels):
                if label >= 0 and room[label] > 0:
                    chosen[place] = next(free)
                    owner[chosen[place]] = first + label
                    room[label] -= 1
        self.places.put(batch, to_device(slots, batch.x.device), fields)

    def shuffled(self, count: int) -> Iterator[tuple[Replay, Int[Tensor, "r m"]]]:
        """All images in random order, ``count`` at a time, and their slots.

        The last are filled up with some once more, which have the slot of what is not kept.
        """
        parts = -(-self.size // count)
        order = self.draw(parts * count)
        again = np.arange(parts * count) >= np.count_nonzero(self.owner != NOBODY, 1, keepdims=True)
        halves = (np.split(own, parts, 1) for own in (order, np.where(again, self.size, order)))
        for slots, places in zip(*halves, strict=True):
            drawn = self.take(slots, SHUFFLED)
            yield drawn, to_device(places, drawn.x.device)

    def _held(self) -> list[Int[np.ndarray, " held"]]:
        return [np.flatnonzero(own != NOBODY) for own in self.owner]

    @property
    def filled(self) -> dict[str, Tensor]:
        """The content of all slots."""
        return self.places.first(self.size)

    @filled.setter
    def filled(self, known: dict[str, Tensor]) -> None:
        self.places.fill(known)
