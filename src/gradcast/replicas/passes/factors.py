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
from torch.nn.functional import pad

from gradcast.replicas.passes.products import product, products


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

    def rows(self, replicas: Bool[Tensor, " r"] | None = None) -> Float[Tensor, "some k p"]:
        """The gradients themselves, one a pass, of all replicas or some."""
        count, passes = self.layers[0].x.shape[:2]
        chosen = range(count) if replicas is None else replicas.nonzero().squeeze(1).tolist()
        whole = self.layers[0].x.new_empty(len(chosen), passes, self.size)
        for own, replica in zip(whole, chosen, strict=True):
            for layer in self.layers:
                found = products(layer.d[replica].mT, layer.x[replica])
                for row, gradient in zip(own[:, layer.weight], found, strict=True):
                    row.view(gradient.shape).copy_(gradient)
                if layer.bias is not None:
                    own[:, layer.bias] = layer.d[replica].sum(1)
        return whole

    def inner(self, others: Sequence["Factors"]) -> Float[Tensor, "r k"]:
        """Inner products of every pass's gradient with the sum of the others', without forming any of them."""
        total: Tensor = self.alike(others, 0) * self._slopes(others, 0)
        for index in range(1, len(self.layers)):
            total.addcmul_(self.alike(others, index), self._slopes(others, index))
        passes, images = self.layers[0].x.shape[1:3]
        return total.sum(-1).view(-1, passes, images).sum(-1)

    def _slopes(self, others: Sequence["Factors"], index: int) -> Float[Tensor, "r n b"]:
        theirs = _side_by_side([other.layers[index].d for other in others])
        return product(self.layers[index].d.flatten(1, 2), theirs.mT)

    def alike(self, others: Sequence["Factors"], index: int) -> Float[Tensor, "r n b"]:
        """Inner products of a layer's inputs with the others'; the first layer's, the dearest, are kept.

        A bias is the weight of an input that is always one.
        """
        if index == 0 and self.met.get("others") is others:
            kept: Tensor = self.met["products"]
            return kept
        layer = self.layers[index]
        theirs = _side_by_side([other.layers[index].x for other in others])
        found = product(layer.x.flatten(1, 2), theirs.mT)
        found = found if layer.bias is None else found.add_(1)
        if index == 0:
            self.met.update(others=others, products=found)
        return found

    def response(self, others: Sequence["Factors"]) -> Float[Tensor, "r n o"]:
        """What the first layer's outputs would change by, were the others' gradient added to its weights."""
        d = _side_by_side([other.layers[0].d for other in others])
        return product(self.alike(others, 0), d)

    def where(self, used: Bool[Tensor, " r"]) -> "Factors":
        """Zero for the other replicas."""
        mask: Shaped[Tensor, "r 1 1 1"] = used.view(-1, 1, 1, 1)
        gone = [replace(layer, d=torch.where(mask, layer.d, 0.0)) for layer in self.layers]
        return Factors(tuple(gone), self.size, self.first)


def _side_by_side(parts: list[Tensor]) -> Float[Tensor, "r b n"]:
    """All images of some passes, and blank ones up to a multiple of sixteen: products are fastest there."""
    blank = -sum(part.shape[1] * part.shape[2] for part in parts) % 16
    joined = parts[0].flatten(1, 2) if len(parts) == 1 else torch.cat([part.flatten(1, 2) for part in parts], dim=1)
    return pad(joined, (0, 0, 0, blank)) if blank else joined
