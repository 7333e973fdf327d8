"""Layers whose weight gradient comes apart into one row a pass.

R replicas make K passes of M images each. The images lie along one axis, replica by replica, pass by pass; weights have
leading axes ``[R, K]``, where the K are one and the same tensor, expanded. So forward and input gradient are one
product a replica over all its passes, and only the weight gradient is kept apart, ``[R, K, ...]``.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import conv2d

from gradcast.replicas.passes import kernels
from gradcast.replicas.passes.kernels import Options
from gradcast.replicas.passes.products import affine, product

PIECE = 2_048  # rows that a GPU sums in one product; sums of few long columns would keep few cores busy


class Linear(Function):
    """``x @ weight' + bias``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """One product a replica."""
        ctx.save_for_backward(x, weight)
        ctx.with_bias = bias is not None
        # not a view: the network may go on in place
        return affine(x, weight[:, 0].to(x.dtype), None if bias is None else bias[:, 0].to(x.dtype))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """One weight gradient a pass, where weights ask for any."""
        x, weight = ctx.saved_tensors
        (replicas, passes), rows = weight.shape[:2], dy.reshape(weight.shape[0] * weight.shape[1], -1, dy.shape[-1])
        dx = None
        if ctx.needs_input_grad[0]:
            dx = product(dy.reshape(replicas, -1, dy.shape[-1]), weight[:, 0].to(dy.dtype)).view(x.shape)
        if not ctx.needs_input_grad[1]:
            return dx, None, None
        dw = summed_products(rows, x.reshape(replicas * passes, -1, x.shape[-1]), pieces(rows))
        db = rows.sum(1).view(replicas, passes, -1).to(weight.dtype) if ctx.with_bias else None
        return dx, dw.view(weight.shape).to(weight.dtype), db


def pieces(rows: Float[Tensor, "g n o"]) -> int:
    """Into how many pieces a GPU should cut a sum over n: a power of two that divides it."""
    count, length = 1, rows.shape[1]
    while rows.is_cuda and length % (2 * count) == 0 and length // (2 * count) >= PIECE:
        count *= 2
    return count


def summed_products(a: Float[Tensor, "g n o"], b: Float[Tensor, "g n i"], count: int = 1) -> Float[Tensor, "g o i"]:
    """``a' b``, summed in ``count`` pieces."""
    if count == 1:
        return product(a.mT, b)
    cut, beside = (each.unflatten(1, (count, -1)).flatten(0, 1) for each in (a, b))
    products: Tensor = (cut.mT @ beside).unflatten(0, (-1, count))
    return products.sum(1, dtype=torch.promote_types(products.dtype, torch.float32))


class Convolution(Function):
    """``conv2d`` with one filter bank a replica."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, options: Options) -> Tensor:
        """One convolution a replica."""
        ctx.save_for_backward(x, weight)
        ctx.with_bias, ctx.options = bias is not None, options
        own = weight[:, 0].to(x.dtype)
        if bias is None and kernels.convolves(x, own, options):
            return kernels.convolve(x, own, stride=options[0][0])
        if bias is None and kernels.writes(x, own):
            return kernels.written(x, own, options)
        biases = [None] * len(own) if bias is None else list(bias[:, 0].to(x.dtype))
        shares = zip(x.chunk(len(own)), own, biases, strict=True)
        return _joined([conv2d(images, filters, b, *options) for images, filters, b in shares])

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """One weight gradient a pass, where weights ask for any."""
        x, weight = ctx.saved_tensors
        dy = dy.contiguous(memory_format=torch.channels_last) if x.is_cuda else dy
        own, shape = weight[:, 0].to(x.dtype), weight.shape
        dx = _input_gradient(x, dy, own, ctx.options) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return dx, None, None, None
        dw = _weight_gradients(x, dy, own, ctx.options, groups=shape[0] * shape[1])
        db = dy.unflatten(0, (*shape[:2], -1)).sum((2, 4, 5)).to(weight.dtype) if ctx.with_bias else None
        return dx, dw.view(shape).to(weight.dtype), db, None


def _input_gradient(x: Tensor, dy: Tensor, own: Tensor, options: Options) -> Tensor:
    mirrored = own.flip(-1, -2).transpose(1, 2)
    if options[0] == (1, 1) and kernels.convolves(dy, mirrored, options):
        return kernels.convolve(dy, mirrored, stride=1)
    back = _way_back(own, options)
    if back is not None and kernels.writes(dy, mirrored):
        return kernels.written(dy, mirrored, back)
    shares = zip(x.chunk(len(own)), dy.chunk(len(own)), own, strict=True)
    return _joined([_library(images, d, filters, options, wanted=0) for images, d, filters in shares])


def _way_back(own: Tensor, options: Options) -> Options | None:
    """The input gradient as a convolution with mirrored filters, where it is one: their overhang is its padding."""
    stride, padding, dilation, groups = options
    reach = [apart * (size - 1) - edge for size, edge, apart in zip(own.shape[3:], padding, dilation, strict=True)]
    if stride != (1, 1) or groups != 1 or min(reach) < 0:
        return None
    return stride, (reach[0], reach[1]), dilation, groups


def _weight_gradients(x: Tensor, dy: Tensor, own: Tensor, options: Options, *, groups: int) -> Tensor:
    if kernels.differentiates(x, own, options, groups):
        return kernels.weight_gradients(x, dy, own, groups=groups, stride=options[0][0])
    each = zip(x.chunk(groups), dy.chunk(groups), strict=True)
    return torch.stack([_library(images, d, own[0], options, wanted=1) for images, d in each])


def _library(x: Tensor, dy: Tensor, filters: Tensor, options: Options, *, wanted: int) -> Tensor:
    """The library's gradient of input (0) or filters (1)."""
    stride, padding, dilation, groups = options
    mask = [wanted == 0, wanted == 1, False]
    found: Tensor = torch.ops.aten.convolution_backward.default(
        dy, x, filters, None, stride, padding, dilation, False, [0, 0], groups, mask
    )[wanted]
    return found


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
