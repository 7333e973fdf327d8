"""Accuracy of every replica on every task's test set."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.data.images import Images
from gradcast.replicas.replicas import Replicas
from gradcast.streams.scale import Scale

CHUNK = {"cpu": 100, "cuda": 10_000}  # images a forward pass: what a cache holds, what keeps a GPU busy
VALUES = 10_000 * 28 * 28  # of a pass's images, at most: features of Conv-Large take 85 times their room


class Evaluator:
    """Test sets of all tasks on the device, one after another, as bytes.

    ``drop_last`` reproduces a slip of the published code: the last image of each test set is not looked at and counts
    as wrong.
    """

    def __init__(
        self, tests: Sequence[Images], scale: Scale, *, drop_last: bool, device: torch.device, dtype: torch.dtype
    ) -> None:
        seen = [slice(0, len(test) - 1 if drop_last else len(test)) for test in tests]
        self.x = torch.from_numpy(np.concatenate([t.x[own] for t, own in zip(tests, seen, strict=True)])).to(device)
        self.y = torch.from_numpy(np.concatenate([t.y[own] for t, own in zip(tests, seen, strict=True)])).to(device)
        self.count = torch.tensor([len(test) for test in tests], device=device)
        counted = [own.stop for own in seen]
        self.task = torch.repeat_interleave(torch.arange(len(tests)), torch.tensor(counted)).to(device)
        self.scale, self.dtype = scale, dtype

    def __call__(self, model: Replicas) -> Float[Tensor, "r tasks"]:
        """Share of right answers, in float64: one row of the accuracy matrix for each replica."""
        right = torch.zeros(model.count, len(self.count), dtype=torch.float64, device=self.y.device)
        size = min(CHUNK[self.y.device.type], max(VALUES // self.x[0].numel(), 1))
        for start in range(0, len(self.y), size):
            chunk = slice(start, start + size)
            tasks = self.task[chunk]
            hits = model.classify(self.scale(self.x[chunk], self.dtype), tasks) == self.y[chunk]
            right.index_add_(1, tasks, hits.double())
        return right / self.count
