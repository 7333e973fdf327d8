"""What a loop hands to learners at the end of a task, and plain descent for spellings of their losses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradcast.core import Batch


@dataclass(frozen=True)
class Seen:
    """The batches of a task, as a loop would hand them to a learner."""

    task: int
    seen: list[Batch]

    def batches(self, size: int) -> Iterator[Batch]:
        x, y = torch.cat([each.x for each in self.seen], 1), torch.cat([each.y for each in self.seen], 1)
        for start in range(0, y.shape[1], size):
            yield Batch(x[:, start : start + size], y[:, start : start + size], self.task)


def descend(weights: Sequence[Tensor], loss: Tensor, lr: float) -> Tensor:
    """One plain step; all weights in one row."""
    gradients = torch.autograd.grad(loss, list(weights), allow_unused=True)
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            if gradient is not None:
                weight -= lr * gradient
    return torch.cat([weight.detach().flatten() for weight in weights])
