"""A pool of the task at hand: training images that a seed's stream does not show, and what they show."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int

from gradcast.data.images import move_pixels
from gradcast.errors import GradcastError
from gradcast.streams.augment import Augmentation
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from gradcast.streams.stream import Stream


class HeldOut:
    """What ``stream.samples`` and ``stream.ratio`` leave of every task, another choice for each seed."""

    def __init__(
        self,
        stream: Stream,
        scale: Scale,
        steps: Sequence[Augmentation] = (),
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.stream, self.scale, self.steps, self.device, self.dtype = stream, scale, tuple(steps), device, dtype
        self.content = stream.content
        left = [len(task.train) - stream.count(index) for index, task in enumerate(stream.tasks)]
        self.count = min(left)
        if self.count < 1:
            raise GradcastError(
                f"the pool 'held-out' has no image of task {left.index(self.count)}: the stream shows all of them; "
                "lower stream.samples or stream.ratio"
            )
        self._task: tuple[int, Pool] | None = None  # the one at hand
        self._left: dict[int, Int[np.ndarray, " left"]] = {}  # where each seed's own lie in it

    def __len__(self) -> int:
        return self.count

    def of(self, task: int, seeds: Sequence[int], index: Int[np.ndarray, "r u"]) -> tuple[Pool, Int[np.ndarray, "r u"]]:
        """All images of a task, and where each seed's own lie among them."""
        if self._task is None or self._task[0] != task:
            own = self.stream.tasks[task]
            x = move_pixels(own.train.x, own.origin)
            made = Pool(x, self.scale, self.steps, y=own.train.y, device=self.device, dtype=self.dtype)
            self._task, self._left = (task, made), {}
        for seed in seeds:
            if seed not in self._left:
                self._left[seed] = self.stream.order(task, seed)[self.stream.count(task) :]
        return self._task[1], np.stack([self._left[seed][own] for seed, own in zip(seeds, index, strict=True)])
