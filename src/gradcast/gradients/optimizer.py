"""What moves stacked weights down their gradients: SGD or Adam, and the rates of a course with warm-up and cosine."""

import math
from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.gradients.sgd import LearningRate, along


@runtime_checkable
class Optimizer(Protocol):
    """Moves weights whose first axis is replicas; ``checkpointed`` names what changes."""

    checkpointed: ClassVar[tuple[str, ...]]

    def step(self, weights: Sequence[Tensor], gradients: Sequence[Tensor], rate: LearningRate) -> None:
        """All weights one step down their gradients, in place."""
        ...


class AdamW:
    """Adam with weight decay that is not part of the gradient; its counter is a tensor, so that a graph may count."""

    checkpointed: ClassVar[tuple[str, ...]] = ("mean", "square", "count")

    def __init__(self, *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, decay: float = 0.0) -> None:
        self.betas, self.eps, self.decay = betas, eps, decay
        self.mean: list[Tensor] = []  # one a weight, from the first step on
        self.square: list[Tensor] = []
        self.count: Float[Tensor, ""] | None = None

    @torch.no_grad()
    def step(
        self,
        weights: Sequence[Tensor],
        gradients: Sequence[Tensor],
        rate: LearningRate,
        factors: Sequence[Tensor] | None = None,
    ) -> None:
        """All weights one step down their gradients, in place; ``factors`` multiply the rate, weight by weight."""
        if self.count is None:
            self.mean, self.square = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
            self.count = torch.zeros((), dtype=torch.float64, device=weights[0].device)
        first, second = self.betas
        self.count += 1
        unbias = 1 - first**self.count, 1 - second**self.count
        moments = zip(weights, gradients, self.mean, self.square, strict=True)
        for index, (weight, gradient, mean, square) in enumerate(moments):
            mean.lerp_(gradient, 1 - first)
            square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
            moved = (mean / unbias[0].to(mean.dtype)) / ((square / unbias[1].to(mean.dtype)).sqrt() + self.eps)
            own = along(rate, weight) if factors is None else along(rate, weight) * factors[index]
            weight.sub_(own * (moved + self.decay * weight))


class SeparateAdam:
    """Adam whose replicas take their own steps: one that sits a step out stays as it is, moments and counter too."""

    checkpointed: ClassVar[tuple[str, ...]] = ("mean", "square", "count")

    def __init__(self, *, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        self.betas, self.eps = betas, eps
        self.mean: list[Tensor] = []  # one a weight, from the first step on
        self.square: list[Tensor] = []
        self.count: Float[Tensor, " r"] | None = None  # steps taken

    @torch.no_grad()
    def step(
        self, weights: Sequence[Tensor], gradients: Sequence[Tensor], rate: float, going: Bool[Tensor, " r"]
    ) -> None:
        """The weights of replicas that are ``going`` one step down their gradients, in place."""
        if self.count is None:
            self.mean, self.square = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
            self.count = torch.zeros(len(going), dtype=torch.float64, device=going.device)
        first, second = self.betas
        self.count += going
        steps = self.count.clamp_min(1)
        size = rate * (1 - second**steps).sqrt() / (1 - first**steps)
        floor = self.eps * (1 - second**steps).sqrt()
        for weight, gradient, mean, square in zip(weights, gradients, self.mean, self.square, strict=True):
            here, own, least = (each.view(-1, *[1] * (weight.dim() - 1)) for each in (going, size, floor))
            mean.copy_(torch.where(here, mean.lerp(gradient, 1 - first), mean))
            square.copy_(torch.where(here, second * square + (1 - second) * gradient.square(), square))
            moved = own.to(weight.dtype) * mean / (square.sqrt() + least.to(weight.dtype))
            weight.sub_(torch.where(here, moved, 0.0))


def cosine_rate(step: int, *, steps: int, warm_up: float, peak: float) -> float:
    """A straight line up to the peak in the first share of the steps, then half a cosine down to zero."""
    rising = round(warm_up * steps)
    if step < rising:
        return peak * (step + 1) / rising
    return peak * (1 + math.cos(math.pi * (step - rising) / max(steps - rising, 1))) / 2
