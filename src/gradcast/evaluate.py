"""Accuracy of every replica on every task's test set."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.data.images import Images
from gradcast.replicas import Replicas
from gradcast.streams.scale import Scale

CHUNK = 2_000  # images a forward pass


class Evaluator:
    """Test sets on the device, as bytes.

    ``drop_last`` reproduces a slip of the published code: the last image of each test set is not looked at and counts
    as wrong.
    """

    def __init__(
        self, tests: Sequence[Images], scale: Scale, *, drop_last: bool, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.tests = [(torch.from_numpy(np.array(t.x)).to(device), torch.from_numpy(t.y).to(device)) for t in tests]
        self.seen = [len(test) - 1 if drop_last else len(test) for test in tests]
        self.scale, self.dtype = scale, dtype

    def __call__(self, model: Replicas) -> Float[Tensor, "r tasks"]:
        """Share of right answers, in float64: one row of the accuracy matrix for each replica."""
        return torch.stack([self._task(model, task) for task in range(len(self.tests))], dim=1)

    def _task(self, model: Replicas, task: int) -> Float[Tensor, " r"]:
        x, y = self.tests[task]
        right = torch.zeros(model.count, dtype=torch.int64, device=y.device)
        for start in range(0, self.seen[task], CHUNK):
            chunk = slice(start, min(start + CHUNK, self.seen[task]))
            right += (model.classify(self.scale(x[chunk], self.dtype), task) == y[chunk]).sum(1)
        return right.double() / len(y)
