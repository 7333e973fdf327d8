"""The first layer's outputs for the memories, kept from step to step.

Memories stand still while a task lasts, and a step along the gradient of a few images changes the first layer's
weights by ``-lr * d' x`` of those images: its outputs for the memories change by ``-lr * (X x') d``, where ``X x'`` is
known from the test for a violation. That is a hundredth of the product ``X W'``, the dearest of a pass.
"""

from collections.abc import Sequence
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.replicas.passes.factors import Factors
from gradcast.replicas.passes.products import affine

AGE = 50  # steps after which the product is computed anew, so that rounding does not add up
Which = tuple[int, int]  # names memories that stand still: see ``memory.Past``


class Kept:
    """Outputs that belong to certain memories and certain weights; none at first."""

    checkpointed: ClassVar[tuple[str, ...]] = ("held",)

    def __init__(self, theta: Float[Tensor, "r p"]) -> None:
        self.theta = theta  # the weights, which keep their place in memory
        self.forget()

    def forget(self) -> None:
        """As if nothing had been kept."""
        self.which: Which | None = None
        self.outputs: Tensor | None = None  # [n, o]
        self.factors: Factors | None = None  # of the latest pass
        self.version = -1  # of the weights, which count their changes
        self.age = 0  # steps since the product was computed

    @property
    def current(self) -> bool:
        """Whether the outputs are those of the weights as they are."""
        return self.version == self.theta._version

    @property
    def held(self) -> tuple[Which, Tensor, int] | None:
        """What a run that goes on later needs: a product computed anew would round differently."""
        if self.which is None or self.outputs is None or not self.current:
            return None
        return self.which, self.outputs, self.age

    @held.setter
    def held(self, known: tuple[Which, Tensor, int] | None) -> None:
        self.forget()
        match known:
            case None:
                return
            case (int(), int()) as which, Tensor() as outputs, int(age):
                self.which, self.outputs, self.age, self.version = which, outputs, age, self.theta._version
            case _:
                raise TypeError("what was kept of a first layer is something else")

    def first(self, which: Which | None) -> Tensor | None:
        """The outputs for these memories, where they are known and not too old."""
        fits = which is not None and self.which == which and self.current and self.age < AGE
        return self.outputs if fits else None

    def renew(self, which: Which | None, factors: Factors) -> None:
        """A pass of these memories was made, from known outputs or not."""
        self.age = 0 if self.first(which) is None else self.age + 1
        self.which, self.outputs, self.factors, self.version = which, factors.first, factors, self.theta._version

    def move(self, lr: float, made_of: Sequence[Factors] | None, changed: Bool[Tensor, " r"] | None) -> None:
        """Follow a step; ``changed`` replicas went another way than the gradient that is ``made_of`` these."""
        if made_of is None or self.factors is None or (changed is not None and changed.all()):
            return  # the version of the weights is another now
        theta, first = self.theta, self.factors.first
        y = first.view(len(theta), -1, first.shape[-1])
        y -= lr * self.factors.response(made_of)
        layer = self.factors.layers[0]
        for replica in [] if changed is None else changed.nonzero().squeeze(1).tolist():
            own = theta[replica : replica + 1]
            weight = own[:, layer.weight].unflatten(1, (y.shape[-1], -1))
            bias = None if layer.bias is None else own[:, layer.bias]
            y[replica] = affine(layer.x[replica].flatten(0, 1), weight, bias)
        self.version = theta._version
