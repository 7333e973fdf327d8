"""The first layer's outputs for the memories, kept from step to step.

Memories stand still while a task lasts, and a step along the gradient of a few images changes the first layer's
weights by ``-lr * d' x`` of those images: its outputs for the memories change by ``-lr * (X x') d``, where ``X x'`` is
known from the test for a violation. That is a hundredth of the product ``X W'``, the dearest of a pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.passes.factors import Factors

AGE = 50  # steps after which the product is computed anew, so that rounding does not add up


@dataclass
class Kept:
    """Outputs that belong to certain memories and certain weights."""

    x: Tensor  # the memories, by identity
    factors: Factors  # of the latest pass
    version: int  # of the weights, which count their changes
    age: int = 0  # steps since the product was computed

    def holds(self, x: Tensor, theta: Tensor) -> bool:
        """Whether the outputs are those of these memories with these weights."""
        return self.x is x and self.version == theta._version and self.age < AGE

    def move(
        self,
        theta: Float[Tensor, "r p"],
        lr: float,
        made_of: Sequence[Factors] | None,
        changed: Bool[Tensor, " r"] | None,
    ) -> None:
        """Follow a step; ``changed`` replicas went another way than the gradient that is ``made_of`` these."""
        if made_of is None or (changed is not None and changed.all()):
            return  # the version of the weights is another now
        y = self.factors.first.view(len(theta), -1, self.factors.first.shape[-1])
        y -= lr * self.factors.response(made_of)
        if changed is not None and changed.any():
            layer = self.factors.layers[0]
            weight = theta[changed, layer.weight].unflatten(1, (y.shape[-1], -1))
            anew = layer.x[changed].flatten(1, 2) @ weight.mT
            y[changed] = anew if layer.bias is None else anew + theta[changed, layer.bias].unsqueeze(1)
        self.version = theta._version
