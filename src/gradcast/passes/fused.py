"""BatchNorm, sum and ReLU as four kernels: moments and output forward, sums and input gradient backward."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gradcast.passes.kernels import jit, ready

BLOCK = 1024  # numbers an elementwise program takes
LENGTH = 32  # pixels a summing program takes at once
WIDTH = 64  # channels a summing program takes, at most; compilers take minutes over thousands
PROGRAMS = 2_048  # summing programs of all passes, at most


def applies_to(x: Tensor) -> bool:
    """Images channels-last on a GPU, in a type that kernels take."""
    lies = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return ready(x) and lies


class FusedNormRelu(Function):
    """The same as ``norm.NormRelu``; ReLU's gate is computed again where that is cheaper than reading it."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, skip: Tensor | None, eps: float, relu: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Output, mean and variance."""
        (replicas, passes, channels), groups = weight.shape, weight.shape[0] * weight.shape[1]
        length = x.numel() // (groups * channels)
        parts = _parts(length, groups, channels)
        sums = x.new_empty(groups, parts, 2, channels, dtype=torch.float32)
        mean, var, rstd, scale, shift = x.new_empty(5, replicas, passes, channels, dtype=torch.float32).unbind()
        sizes, blocks = _blocks(channels)
        jit().moments[(groups, parts, blocks)](x, sums, length, _chunk(length, parts), **sizes, BL=LENGTH)
        jit().finish_moments[(groups, blocks)](
            x, sums, weight, bias, mean, var, rstd, scale, shift, length, eps, parts, passes,
            weight.stride(0), bias.stride(0), **sizes,
        )  # fmt: skip
        skip = None if skip is None else skip.contiguous(memory_format=torch.channels_last)
        y = torch.empty_like(x)
        size = length * channels
        jit().affine[(groups, -(-size // BLOCK))](x, scale, shift, skip, y, size, C=channels, RELU=relu, BLOCK=BLOCK)
        ctx.save_for_backward(x, y if relu and skip is not None else None, mean, rstd, scale, shift)
        ctx.relu, ctx.with_skip = relu, skip is not None
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Where a sum came in, the gated gradient is written out: it is the gradient of the other summand too."""
        x, y, mean, rstd, scale, shift = ctx.saved_tensors
        dy = dy.contiguous(memory_format=torch.channels_last)
        groups, channels = mean.shape[0] * mean.shape[1], mean.shape[2]
        length = x.numel() // mean.numel()
        gated = torch.empty_like(dy) if y is not None else dy
        recompute = ctx.relu and y is None
        sizes, blocks = _blocks(channels)
        parts = _parts(length, groups, channels)
        sums = x.new_empty(groups, parts, 2, channels, dtype=torch.float32)
        jit().sums[(groups, parts, blocks)](
            x, dy, y, gated, mean, scale, shift, sums, length, _chunk(length, parts), **sizes,
            BL=LENGTH, GATE=y is not None, RECOMPUTE=recompute,
        )  # fmt: skip
        dweight, dbias, slope, level = x.new_empty(4, *mean.shape, dtype=torch.float32).unbind()
        jit().finish_sums[(groups, blocks)](
            sums, mean, rstd, scale, dweight, dbias, slope, level, length, parts, **sizes
        )
        dx, size = torch.empty_like(x), length * channels
        jit().blend[(groups, -(-size // BLOCK))](
            x, gated, scale, shift, slope, level, dx, size, C=channels, RECOMPUTE=recompute, BLOCK=BLOCK
        )
        return dx, dweight, dbias, gated if ctx.with_skip else None, None, None


def fold_in(mean: Tensor, var: Tensor, seen_mean: Tensor, seen_var: Tensor, momentum: float, unbias: float) -> None:
    """Running statistics ``[R, C]`` after the passes, in place."""
    replicas, passes, channels = seen_mean.shape
    sizes, blocks = _blocks(channels)
    jit().fold[(replicas, blocks)](mean, var, seen_mean, seen_var, passes, momentum, unbias, **sizes)


def _parts(length: int, groups: int, channels: int) -> int:
    """Summing programs a pass: many for a single pass, but each with a few blocks to do."""
    return max(1, min(PROGRAMS // (groups * _blocks(channels)[1]), length // (4 * LENGTH), 256))


def _chunk(length: int, parts: int) -> int:
    """Pixels of one part, in whole blocks."""
    return -(-length // (parts * LENGTH)) * LENGTH


def _blocks(channels: int) -> tuple[dict[str, int], int]:
    """A kernel's sizes, and how many of its programs lie side by side."""
    block = min(1 << max(channels - 1, 1).bit_length(), WIDTH)
    return {"C": channels, "BC": block}, -(-channels // block)
