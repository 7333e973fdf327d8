"""GEM as it was first written down, for comparison: nothing here is shared with the step that trains.

One forward and backward pass for each past task, each gradient copied into a column of a matrix, and where the
present gradient opposes one of them the matrix goes to the host and the programme is solved there in float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


@dataclass
class ClassicalGem:
    """One network and the memories of its past tasks."""

    module: nn.Module
    memories: Sequence[tuple[Tensor, Tensor]]  # images and labels of each past task
    columns: Sequence[slice]  # logits of each task, the present one last
    lr: float
    margin: float

    def __post_init__(self) -> None:
        self.parameters = list(self.module.parameters())
        first = self.parameters[0]
        count = sum(parameter.numel() for parameter in self.parameters)
        self.gradients = torch.zeros(count, len(self.memories) + 1, dtype=first.dtype, device=first.device)

    def step(self, x: Tensor, y: Tensor) -> bool:
        """Train on a batch; whether its gradient had to be projected."""
        self.module.train()
        past = len(self.memories)
        for task, (images, labels) in enumerate(self.memories):
            self._backward(images, labels, task)
            self._store(task)
        self._backward(x, y, past)
        self._store(past)
        earlier = self.gradients.index_select(1, torch.arange(past, device=self.gradients.device))
        products = self.gradients[:, past].unsqueeze(0) @ earlier
        violated = bool((products < 0).any())
        if violated:
            self._project(earlier, past)
        with torch.no_grad():
            for parameter in self.parameters:
                assert parameter.grad is not None
                parameter.sub_(self.lr * parameter.grad)
        return violated

    def _backward(self, x: Tensor, y: Tensor, task: int) -> None:
        self.module.zero_grad()
        cross_entropy(self.module(x)[:, self.columns[task]], y).backward()

    def _store(self, column: int) -> None:
        start = 0
        for parameter in self.parameters:
            assert parameter.grad is not None
            self.gradients[start : start + parameter.numel(), column].copy_(parameter.grad.flatten())
            start += parameter.numel()

    def _project(self, earlier: Tensor, past: int) -> None:
        rows = earlier.cpu().t().double().numpy()
        gradient = self.gradients[:, past].cpu().double().numpy()
        weights = dual(rows @ rows.T, rows @ gradient, self.margin)
        flat = torch.from_numpy(weights @ rows + gradient).to(self.gradients)
        start = 0
        for parameter in self.parameters:
            assert parameter.grad is not None
            parameter.grad.copy_(flat[start : start + parameter.numel()].view(parameter.shape))
            start += parameter.numel()


def dual(gram: np.ndarray, inner: np.ndarray, margin: float) -> np.ndarray:
    """``v >= margin`` that minimises ``1/2 v' gram v + inner' v``, as non-negative least squares."""
    gram = (gram + gram.T) / 2
    shifted = inner + margin * gram.sum(1)
    lower = cholesky(gram + 1e-14 * np.trace(gram) * np.eye(len(gram)), lower=True)
    found, _ = nnls(lower.T, -solve_triangular(lower, shifted, lower=True))
    return np.asarray(found + margin)
