"""Gradients of linear layers as what they are made of: the images' inputs and output gradients of each layer.

A weight gradient is ``d' x`` over the images of a pass, so the inner product of two gradients is

    <d' x, e' z>  =  sum over pairs of images of (x . z) (d . e),

which for a batch of ten costs a tenth of the gradient itself. That is all GEM's test for a violation asks for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor


@dataclass(frozen=True)
class Factor:
    """One layer: inputs and output gradients of every image, and where weight and bias lie among the parameters."""

    x: Float[Tensor, "r k m i"]
    d: Float[Tensor, "r k m o"]
    weight: slice
    bias: slice | None


@dataclass(frozen=True)
class Factors:
    """All layers of a network whose only weights are those of linear layers."""

    layers: tuple[Factor, ...]
    size: int  # number of parameters
    first: Tensor  # [n, o], the first layer's outputs
    met: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # what ``alike`` found last

    def rows(self) -> Float[Tensor, "r k p"]:
        """The gradients themselves, one a pass."""
        first = self.layers[0].x
        whole = first.new_empty(*first.shape[:2], self.size)
        for layer in self.layers:
            whole[..., layer.weight] = (layer.d.mT.flatten(0, 1) @ layer.x.flatten(0, 1)).view(*first.shape[:2], -1)
            if layer.bias is not None:
                whole[..., layer.bias] = layer.d.sum(2)
        return whole

    def inner(self, others: Sequence["Factors"]) -> Float[Tensor, "r k"]:
        """Inner products of every pass's gradient with the sum of the others', without forming any of them."""
        total: Tensor | int = 0
        for index, layer in enumerate(self.layers):
            d = _side_by_side([other.layers[index].d for other in others])
            alike = self.alike(others) if index == 0 else layer.x.flatten(1, 2) @ _others_x(others, index).mT
            if layer.bias is not None:
                alike = alike + 1  # a bias is the weight of an input that is always one
            pairs = alike * (layer.d.flatten(1, 2) @ d.mT)
            total = total + pairs.sum(-1).view(layer.x.shape[:3]).sum(-1)
        return torch.as_tensor(total)

    def alike(self, others: Sequence["Factors"]) -> Float[Tensor, "r n b"]:
        """Inner products of the first layer's inputs with the others': the dearest part, kept for who asks again."""
        if self.met.get("others") is not others:
            self.met["others"] = others
            self.met["products"] = self.layers[0].x.flatten(1, 2) @ _others_x(others, 0).mT
        found: Tensor = self.met["products"]
        return found

    def response(self, others: Sequence["Factors"]) -> Float[Tensor, "r n o"]:
        """What the first layer's outputs would change by, were the others' gradient added to its weights."""
        d = _side_by_side([other.layers[0].d for other in others])
        alike = self.alike(others)
        return (alike if self.layers[0].bias is None else alike + 1) @ d

    def of(self, replicas: Bool[Tensor, " r"]) -> "Factors":
        """Those of some replicas."""
        chosen = [replace(layer, x=layer.x[replicas], d=layer.d[replicas]) for layer in self.layers]
        return Factors(tuple(chosen), self.size, self.first)

    def where(self, used: Bool[Tensor, " r"]) -> "Factors":
        """Zero for the other replicas."""
        mask: Shaped[Tensor, "r 1 1 1"] = used.view(-1, 1, 1, 1)
        gone = [replace(layer, d=torch.where(mask, layer.d, 0.0)) for layer in self.layers]
        return Factors(tuple(gone), self.size, self.first)


def _others_x(others: Sequence[Factors], index: int) -> Float[Tensor, "r b i"]:
    return _side_by_side([other.layers[index].x for other in others])


def _side_by_side(parts: list[Tensor]) -> Float[Tensor, "r b n"]:
    """All images of some passes, and blank ones up to a multiple of sixteen: products are fastest there."""
    blank = -sum(part.shape[1] * part.shape[2] for part in parts) % 16
    joined = [part.flatten(1, 2) for part in parts]
    zeros = [joined[0].new_zeros(len(joined[0]), blank, joined[0].shape[2])] if blank else []
    return torch.cat([*joined, *zeros], dim=1)
