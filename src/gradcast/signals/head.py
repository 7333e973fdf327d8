"""A small network on top of the features, one a replica, trained beside the model and thrown away with the run."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Metrics, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.optimizer import Optimizer
from gradcast.gradients.sgd import LearningRate, Sgd
from gradcast.randomness import seeded
from gradcast.replicas.replicas import Replicas, Statistics


class Head:
    """Linear layers with ReLU between them, and their optimizer; plain SGD where none is given."""

    checkpointed: ClassVar[tuple[str, ...]] = ("weights", "optimizer")

    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[int],
        name: str,
        like: Tensor,
        *,
        lr: LearningRate,
        optimizer: Optimizer | None = None,
    ) -> None:
        self.lr, self.optimizer = lr, optimizer or Sgd()
        self.weights = [
            stacked_layer(shape, seeds, f"{name} {index}", like) for index, shape in enumerate(pairwise(sizes))
        ]

    def __call__(self, x: Float[Tensor, "r n f"]) -> Float[Tensor, "r n o"]:
        """Bias is the last column of each weight."""
        for index, weight in enumerate(self.weights):
            x = torch.baddbmm(weight[..., -1:].mT, x.relu() if index else x, weight[..., :-1].mT)
        return x

    def descend(
        self,
        model: Replicas,
        unlabelled: Unlabelled,
        loss: Callable[[Tensor], Float[Tensor, " r"]],
        *,
        weight: float,
        statistics: Statistics,
    ) -> tuple[Gradient, Metrics]:
        """The model's gradient of ``weight`` times a loss of the head's outputs; the head takes its own step."""
        made = model.embed(unlabelled.x, statistics=statistics, used=unlabelled.used)
        with torch.enable_grad():
            features = made.z.requires_grad_()
            found = loss(self(features))
            slope, *own = torch.autograd.grad(weight * found.sum(), [features, *self.weights])
        self._step(own, unlabelled.used)
        return made.pull(slope), {"signal_loss": found.detach()}

    @torch.no_grad()
    def _step(self, gradients: Sequence[Tensor], used: Bool[Tensor, " r"]) -> None:
        masked = [torch.where(used.view(-1, 1, 1), gradient, 0.0) for gradient in gradients]
        self.optimizer.step(self.weights, masked, self.lr)

    def state(self) -> dict[str, Tensor]:
        """Its weights by name."""
        return {f"head.{index}": weight.detach() for index, weight in enumerate(self.weights)}


def stacked_layer(shape: tuple[int, int], seeds: Sequence[int], name: str, like: Tensor) -> Float[Tensor, "r o i"]:
    """One linear layer a seed, bias in the last column; uniform, as linear layers usually start."""
    fan_in, fan_out = shape
    rows = []
    for seed in seeds:
        with seeded(seed, name):
            rows.append((2 * torch.rand(fan_out, fan_in + 1) - 1) / math.sqrt(fan_in))
    return torch.stack(rows).to(device=like.device, dtype=like.dtype).requires_grad_()
