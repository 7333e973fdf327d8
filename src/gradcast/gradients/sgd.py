"""SGD for replicas: each may have its own learning rate, and start anew when the others do not."""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LearningRate = float | Float[Tensor, " r"]  # one for all, or one a replica


def along(rate: LearningRate, like: Float[Tensor, "r *any"]) -> float | Tensor:
    """The learning rate as something that multiplies ``like``."""
    return _column(rate, like) if isinstance(rate, Tensor) else rate


def descend(weight: Float[Tensor, "r *any"], direction: Float[Tensor, "r *any"], rate: LearningRate) -> None:
    """``weight -= rate * direction``, in place; where the rate is zero, nothing moves."""
    if isinstance(rate, Tensor):
        weight.addcmul_(direction, _column(rate, weight), value=-1)
    else:
        weight.sub_(direction, alpha=rate)


class Sgd:
    """Momentum and weight decay as usual; weights and gradients have replicas along their first axis."""

    checkpointed: ClassVar[tuple[str, ...]] = ("velocity", "astray")

    def __init__(self, *, momentum: float = 0.0, decay: float = 0.0) -> None:
        self.momentum, self.decay = momentum, decay
        self.velocity: list[Tensor] = []  # one a weight, from the first step on
        self.astray: Bool[Tensor, " r"] | None = None  # replicas whose weights are not those it moves
        self.resting: list[Tensor] = []  # weights that nothing moves in the coming steps, like the weights in shape

    @torch.no_grad()
    def step(
        self,
        weights: Sequence[Tensor],
        gradients: Sequence[Tensor],
        rate: LearningRate,
        factors: Sequence[Tensor] | None = None,
    ) -> None:
        """All weights one step down their gradients, in place; ``factors`` multiply the rate, weight by weight."""
        if self.momentum and not self.velocity:
            self.velocity = [torch.zeros_like(weight) for weight in weights]
        if self.astray is not None:
            rate = torch.where(self.astray, 0.0, torch.as_tensor(rate, device=self.astray.device))
        for index, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
            direction = gradient.add(weight, alpha=self.decay) if self.decay else gradient
            if self.resting:
                direction = self._awake(index, direction)
            elif self.momentum:
                direction = self.velocity[index].mul_(self.momentum).add_(direction)
            descend(weight, direction if factors is None else direction * factors[index], rate)

    def _awake(self, index: int, direction: Tensor) -> Tensor:
        """The same where some weights rest: their velocity stays as it is."""
        resting = self.resting[index]
        if self.momentum:
            velocity = self.velocity[index]
            direction = velocity.copy_(torch.where(resting, velocity, self.momentum * velocity + direction))
        return direction.masked_fill(resting, 0.0)

    def rest(self, which: Sequence[Tensor]) -> None:
        """These weights have no gradient in the coming steps: neither decay nor velocity moves them."""
        if not self.resting:
            self.resting = [mask.clone() for mask in which]
        for mask, own in zip(self.resting, which, strict=True):
            mask.copy_(own)  # in place: a graph may read it

    def renew(self, which: Bool[Tensor, " r"] | None = None) -> None:
        """A new optimizer for these replicas, or for all: no velocity, and the weights as they are now."""
        if which is None:
            self.velocity, self.astray = [], None
            return
        for velocity in self.velocity:
            velocity[which.to(velocity.device)] = 0
        if self.astray is not None:
            self.astray &= ~which.to(self.astray.device)  # in place: a graph may read it

    def lose(self, which: Bool[Tensor, " r"]) -> None:
        """The weights of these replicas are exchanged for others that it does not know of: they stay as they are."""
        self.astray = which.clone() if self.astray is None else self.astray.logical_or_(which)

    def state_dict(self) -> dict[str, Any]:
        """What changes while training, as torch's optimizers give it."""
        return {"velocity": list(self.velocity), "astray": self.astray}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there; the tensors are taken over, not copied."""
        self.velocity, self.astray = list(state["velocity"]), state["astray"]


def _column(rates: Float[Tensor, " r"], like: Float[Tensor, "r *any"]) -> Float[Tensor, "r *ones"]:
    return rates.view(-1, *[1] * (like.dim() - 1))
