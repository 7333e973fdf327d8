"""How far the training of a task is, for signals whose weights follow it."""

from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch
from gradcast.devices import to_device


class Progress:
    """The share of a task's updates that are done; a stream's tasks begin anew, as rates of schedules do.

    ``updates`` is how many a task has, at most. The share keeps its place in memory.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("task", "done")

    def __init__(self, updates: Callable[[int], int], like: Tensor) -> None:
        self.updates, self.share = updates, torch.zeros((), dtype=like.dtype, device=like.device)
        self.task, self.done = 0, 0

    def prepare(self, batch: Batch) -> None:
        """On the host, before every update."""
        if batch.task != self.task:
            self.task, self.done = batch.task, 0
        share = torch.tensor(min(self.done / self.updates(self.task), 1.0), dtype=self.share.dtype)
        self.share.copy_(to_device(share, self.share.device))
        self.done += 1

    def risen(self, ramp: float) -> Float[Tensor, ""] | float:
        """``exp(-5 (1 - t)^2)``, where t rises from 0 to 1 in the first ``ramp`` of the updates; 0: whole at once."""
        return torch.exp(-5 * (1 - (self.share / ramp).clamp_max(1)).square()) if ramp else 1.0
