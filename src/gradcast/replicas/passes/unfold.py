"""Convolutions as products: what a filter sees at each place, laid out in rows, is what a linear layer takes.

A library makes one convolution after another, one a replica and two more for its gradients, each too small for a GPU.
As products they are one call for all replicas, at the price of a copy of every pixel for each filter that sees it.
"""

from math import prod
from typing import Any

from jaxtyping import Float
from torch import Tensor

from gradcast.replicas.passes.kernels import MANY, Options
from gradcast.replicas.passes.layers import Linear

LARGEST = 1 << 27  # numbers in rows, half a gigabyte of them


def pay(x: Float[Tensor, "n c h w"], filters: Float[Tensor, "r k o c kh kw"], options: Options) -> bool:
    """Always for filters of one pixel, which need no copy; else on a GPU, for several short passes without padding."""
    stride, padding, dilation, groups = options
    if padding != (0, 0) or groups != 1:
        return False
    if filters.shape[4:] == (1, 1):
        return True
    if not x.is_cuda or dilation != (1, 1) or filters.shape[0] * filters.shape[1] == 1:
        return False
    sides = zip(x.shape[2:], filters.shape[4:], stride, strict=True)
    places = [(side - kernel) // step + 1 for side, kernel, step in sides]
    rows, passes = len(x) * prod([*places, *filters.shape[3:]]), filters.shape[0] * filters.shape[1]
    return rows <= LARGEST and rows // passes * filters.shape[2] < MANY


def convolved(
    x: Float[Tensor, "n c h w"],
    filters: Float[Tensor, "r k o c kh kw"],
    bias: Float[Tensor, "r k o"] | None,
    stride: tuple[int, int],
) -> Float[Tensor, "n o h2 w2"]:
    """The same as ``Convolution`` without padding; channels of a pixel lie side by side, and stay so."""
    windows: Any = x.permute(0, 2, 3, 1)
    if filters.shape[4:] == (1, 1):
        windows = windows[:, :: stride[0], :: stride[1], :, None, None]
    else:
        for axis in (0, 1):
            windows = windows.unfold(axis + 1, filters.shape[4 + axis], stride[axis])
    rows = windows.permute(0, 1, 2, 4, 5, 3).flatten(3)
    flat = filters.permute(0, 1, 2, 4, 5, 3).flatten(3)
    found: Tensor = Linear.apply(rows, flat, bias)  # type: ignore[no-untyped-call]
    return found.permute(0, 3, 1, 2)
