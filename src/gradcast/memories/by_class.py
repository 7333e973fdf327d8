"""An episodic memory balanced by class: a ring of the last images of every class of every task."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import one_hot

from gradcast.core import Batch, Replay
from gradcast.devices import to_device
from gradcast.memories.slots import Slots
from gradcast.randomness import numpy_generator
from gradcast.replicas.heads import Heads

WHOLE = 1  # the turn that takes whole tasks; draws of a step keep their place


class ClassMemory:
    """``size`` places a task, at least one a class and shared as equally as can be; one memory a replica.

    Labels stay on the device: how many images of a class came is counted there. The host asks once a task, or after
    every batch where the present task is drawn from too and has room left.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("order", "counts", "draws", "filled")

    def __init__(self, heads: Heads, size: int, *, seeds: Sequence[int]) -> None:
        self.heads, self.size = heads, size
        self.order: list[int] = []  # tasks in order of first appearance
        self.rings = [_shares(size, len(columns)) for columns in heads.task_columns]  # places of each class of a task
        self.draws = [numpy_generator(seed, "reference") for seed in seeds]
        self.places = Slots(heads.tasks * size)
        self.counts: Tensor | None = None  # [R, tasks, classes], images that came
        self._past: tuple[tuple[int, int], list[Int[np.ndarray, " held"]]] | None = None  # places that are drawn from
        self._whole: dict[int, list[Int[np.ndarray, " size"]]] = {}  # places of tasks that are over

    def write(self, batch: Batch, fields: Mapping[str, Tensor] | None = None) -> None:
        """Every image goes to its class's ring, over the oldest one there; ``fields`` as in ``Reservoir``."""
        if self.counts is None:
            self.counts = batch.y.new_zeros(len(batch.y), self.heads.tasks, self.heads.widest)
        if batch.task not in self.order:
            self.order.append(batch.task)
        y = self.heads.places(batch.y, batch.task)
        self.places.put(batch, self._places(y, batch.task, self.counts[:, batch.task]), fields)
        self.counts[:, batch.task] += one_hot(y, self.heads.widest).sum(1)
        if self._past is not None:
            (left_out, tasks), held = self._past
            if batch.task != left_out and any(len(own) < tasks * self.size for own in held):
                self._past = None

    def _places(self, y: Int[Tensor, "r b"], task: int, before: Int[Tensor, "r classes"]) -> Int[Tensor, "r b"]:
        """Of more images of one class than its ring holds, the last stay."""
        ring = to_device(np.array(self.rings[task]), y.device)
        start = ring.cumsum(0) - ring
        same = one_hot(y, len(ring))
        rank = same.cumsum(1).gather(2, y.unsqueeze(-1)).squeeze(-1) - 1  # among the batch's images of its class
        total = same.sum(1).gather(1, y)
        turn = (before.gather(1, y) + rank) % ring[y]
        place = task * self.size + start[y] + turn
        return torch.where(rank >= total - ring[y], place, self.places.size)

    def draw(self, task: int, count: int) -> Replay | None:
        """Random images of all tasks that came, but for this one, at most ``count``; None while there are none.

        Different ones where a replica has so many. Where a class had fewer images than its ring holds, none comes
        twice before every other came once: the number must not depend on the replicas beside it.
        """
        earlier = [each for each in self.order if each != task]
        if not earlier:
            return None
        drawn_from = task, len(earlier)
        if self._past is None or self._past[0] != drawn_from:
            self._past = (drawn_from, self._held(earlier))
        count = min(count, len(earlier) * self.size)
        chosen = [
            np.resize(generator.permutation(held), count)
            for generator, held in zip(self.draws, self._past[1], strict=True)
        ]
        return self.places.take(chosen)

    def all_of(self, *tasks: int) -> Replay:
        """What tasks that are over have left, class by class; where a class had too few images, some come twice."""
        for task in tasks:
            if task not in self._whole:
                self._whole[task] = [np.resize(held, self.size) for held in self._held([task])]
        rows = zip(*(self._whole[task] for task in tasks), strict=True)
        return self.places.take([np.concatenate(own) for own in rows], turn=WHOLE)

    def _held(self, tasks: list[int]) -> list[Int[np.ndarray, " held"]]:
        """Slots of these tasks that have an image, for every replica."""
        assert self.counts is not None
        counts = self.counts.cpu().numpy()
        return [np.concatenate([task * self.size + self._taken(task, own[task]) for task in tasks]) for own in counts]

    def _taken(self, task: int, counts: Int[np.ndarray, " classes"]) -> Int[np.ndarray, " held"]:
        """Places of a task that have an image, where so many of each class came."""
        rings = self.rings[task]
        owner = np.repeat(np.arange(len(rings)), rings)
        turn = np.concatenate([np.arange(ring) for ring in rings])
        return np.flatnonzero(turn < counts[owner])

    @property
    def filled(self) -> dict[str, Tensor]:
        """All places up to the last one of a task that came."""
        return self.places.first(self.size * (max(self.order, default=-1) + 1))

    @filled.setter
    def filled(self, known: dict[str, Tensor]) -> None:
        self.places.fill(known)
        self._past, self._whole = None, {}


def _shares(size: int, classes: int) -> list[int]:
    """So many places, shared as equally as can be."""
    return [len(places) for places in np.array_split(np.arange(size), classes)]
