"""What moves stacked weights down their gradients: SGD or AdamW, and the rates of a course with warm-up and cosine."""

import math
from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
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


def cosine_rate(step: int, *, steps: int, warm_up: float, peak: float) -> float:
    """A straight line up to the peak in the first share of the steps, then half a cosine down to zero."""
    rising = round(warm_up * steps)
    if step < rising:
        return peak * (step + 1) / rising
    return peak * (1 + math.cos(math.pi * (step - rising) / max(steps - rising, 1))) / 2
