"""Pools of the task at hand: its training images without a label, or those that its stream does not show."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from gradcast.data.images import move_pixels
from gradcast.data.stored_images import StoredImages
from gradcast.devices import Place, to_device
from gradcast.errors import GradcastError
from gradcast.streams.augment import Augmentation
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from gradcast.streams.stream import Stream

OwnPoolName = Literal["unlabelled", "held-out"]


class OwnImages:
    """Another choice of images for each task and seed.

    ``unlabelled``: what ``stream.labels`` leaves without a label; ``held-out``: what ``stream.samples`` and
    ``stream.ratio`` leave out. What they show is known, for a diagnosis and for the signal true-labels.
    """

    def __init__(
        self, which: OwnPoolName, stream: Stream, scale: Scale, steps: Sequence[Augmentation], place: Place
    ) -> None:
        self.which, self.stream, self.scale, self.steps, self.place = which, stream, scale, tuple(steps), place
        self.content, self.device = stream.content, place.device
        self.by_task = which == "unlabelled"
        left = [self._left(task) for task in range(len(stream.tasks))]
        self.count = min(left)
        if self.count < 1:
            remedy = "stream.labels" if self.by_task else "stream.samples or stream.ratio"
            seen = "all have a label" if self.by_task else "the stream shows all of them"
            raise GradcastError(
                f"the pool {which!r} has no image of task {left.index(self.count)}: {seen}; lower {remedy}"
            )
        self._pool: tuple[int, Pool] | None = None  # of the task at hand
        self._places: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # each seed's own, and their labels

    def behind(self, frozen: nn.Module) -> "OwnImages":
        """The same images as a network sees them behind its frozen stages."""
        found = copy(self)
        found.scale, found._pool = replace(self.scale, frozen=frozen), None
        return found

    def _left(self, task: int) -> int:
        shown = self.stream.shown(task)
        return shown - self.stream.count(task) if self.by_task else len(self.stream.tasks[task].train) - shown

    def __len__(self) -> int:
        return self.count

    def size(self, task: int) -> int:
        """Images to walk through in a task; of those held out all tasks give equally many, in one walk."""
        return self._left(task) if self.by_task else self.count

    def images(
        self,
        task: int,
        seeds: Sequence[int],
        index: Int[np.ndarray, "r u"],
        generators: Sequence[torch.Generator] = (),
        steps: Sequence[Augmentation] = (),
    ) -> tuple[Tensor, Tensor | None]:
        """Each seed's images of these numbers as the model sees them, and what they show."""
        self._begin(task)
        owned = [self._of(task, seed) for seed in seeds]
        places = np.stack([places[own] for (places, _), own in zip(owned, index, strict=True)])
        truth = np.stack([y[own] for (_, y), own in zip(owned, index, strict=True)])
        assert self._pool is not None
        x, _ = self._pool[1].images(task, seeds, places, generators, steps)
        return x, to_device(truth, self.device)

    def _begin(self, task: int) -> None:
        """The pixels of a source are the same in all tasks, unless a task moves them or has a source of its own."""
        origin, source = self.stream.tasks[task].origin, self.stream.tasks[task].train.source
        same = self._pool is not None and origin is None and source is self.stream.tasks[self._pool[0]].train.source
        if self._pool is not None and (same or self._pool[0] == task):
            if self._pool[0] != task:
                self._pool, self._places = (task, self._pool[1]), {}
            return
        x = move_pixels(source, origin)
        self._pool, self._places = (task, Pool(StoredImages.of(x), self.scale, self.steps, place=self.place)), {}

    def _of(self, task: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        if seed not in self._places:
            chosen = self.stream.unlabelled if self.by_task else self.stream.held_out
            own, subset = chosen(task, seed), self.stream.task(task, seed).train
            self._places[seed] = subset.places[own], subset.y[own]
        return self._places[seed]
