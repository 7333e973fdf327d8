"""A parameter gradient on its way from a pass to the optimizer, and the memory gradients it is held against."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.replicas.passes.factors import Factors


@dataclass(frozen=True)
class Gradient:
    """One flat gradient a replica; what it is made of, where that is known."""

    flat: Float[Tensor, "r p"]
    factors: tuple[Factors, ...] | None = None

    def __add__(self, other: "Gradient") -> "Gradient":
        known = self.factors is not None and other.factors is not None
        both = (self.factors or ()) + (other.factors or ())
        return Gradient(self.flat + other.flat, both if known else None)

    def where(self, used: Bool[Tensor, " r"]) -> "Gradient":
        """Zero for the other replicas."""
        factors = None if self.factors is None else tuple(each.where(used) for each in self.factors)
        return Gradient(torch.where(used.unsqueeze(1), self.flat, 0.0), factors)


@dataclass(frozen=True)
class PastGradients:
    """Gradients of past tasks' losses on their memories: formed already, or only when somebody needs them."""

    formed: Float[Tensor, "r k p"] | None
    factors: Factors | None = None

    def inner(self, gradient: Gradient) -> Float[Tensor, "r k"]:
        """Inner products with a gradient."""
        if self.factors is not None and gradient.factors is not None:
            return self.factors.inner(gradient.factors)
        return (self.rows() * gradient.flat.unsqueeze(1)).sum(-1)

    def rows(self, replicas: Bool[Tensor, " r"] | None = None) -> Float[Tensor, "some k p"]:
        """The gradients themselves, of all replicas or some."""
        if self.formed is not None:
            return self.formed if replicas is None else self.formed[replicas]
        assert self.factors is not None
        return self.factors.rows(replicas)
