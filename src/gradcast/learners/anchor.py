"""A quadratic penalty around one set of weights, each with its own importance; MAS and online EWC share it."""

from dataclasses import dataclass, field
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Terms
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Replicas


@dataclass
class Anchor:
    """``strength * sum_i importance_i (w_i - w*_i)^2`` (no factor 1/2); nothing before the first task is over."""

    checkpointed: ClassVar[tuple[str, ...]] = ("importance", "weights")
    strength: float
    importance: Float[Tensor, "r p"] | None = field(default=None, init=False)
    weights: Float[Tensor, "r p"] | None = field(default=None, init=False)  # w*

    def drop(self, model: Replicas, importance: Float[Tensor, "r p"]) -> None:
        """Hold the present weights with this importance; both keep their place in memory."""
        self.importance = _put(self.importance, importance)
        self.weights = _put(self.weights, model.theta)

    def terms(self, model: Replicas) -> Terms | None:
        """The penalty as terms of a step's loss."""
        if self.importance is None or self.weights is None:
            return None
        value = self.penalty(model)
        assert value is not None
        slope = 2 * self.strength * self.importance * (model.theta - self.weights)
        return Terms(Gradient(slope), metrics={"penalty": value})

    def penalty(self, model: Replicas) -> Float[Tensor, " r"] | None:
        """How large the penalty is."""
        if self.importance is None or self.weights is None:
            return None
        return self.strength * (self.importance * (model.theta - self.weights).square()).sum(1)


def _put(place: Tensor | None, new: Tensor) -> Tensor:
    return new.clone() if place is None else place.copy_(new)
