"""BatchNorm, sum and leaky ReLU as four kernels: moments and output forward, sums and input gradient backward."""

from math import gcd
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from gradcast.replicas.passes.kernels import jit, ready

BLOCK = 1024  # numbers an elementwise program takes at once
REPEAT = 4  # how many such blocks it takes
LENGTH = 32  # rows a summing program takes at once
WIDTH = 64  # numbers of a row that it takes, at most; compilers take minutes over thousands
SHORT = 4  # so many channels fill what memory moves at once only with their neighbours
PROGRAMS = 2_048  # summing programs of all passes, at most


def applies_to(x: Tensor) -> bool:
    """Images channels-last on a GPU, in a type that kernels take."""
    lies = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return ready(x) and lies


class FusedNormRelu(Function):
    """The same as ``norm.NormRelu``; ReLU's gate is computed again where that is cheaper than reading it."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, skip: Tensor | None, eps: float, leak: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Output, mean and variance."""
        (replicas, passes, channels), groups = weight.shape, weight.shape[0] * weight.shape[1]
        length = x.numel() // (groups * channels)
        cut = _cut(length, groups, channels)
        sums = cut.empty(x, groups)
        mean, var, rstd, scale, shift = x.new_empty(5, replicas, passes, channels, dtype=torch.float32).unbind()
        sizes, blocks = _blocks(channels)
        jit().moments[cut.grid(groups)](x, sums, cut.rows, cut.chunk, **cut.sizes)
        jit().finish_moments[(groups, blocks)](
            x, sums, weight, bias, mean, var, rstd, scale, shift, length, eps, cut.parts, cut.beside, passes,
            weight.stride(0), bias.stride(0), **sizes,
        )  # fmt: skip
        y = _applied(x, scale, shift, skip, leak)
        ctx.save_for_backward(x, _gate(y, skip, leak), mean, rstd, scale, shift)
        ctx.leak, ctx.with_skip = leak, skip is not None
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Through the statistics every image's gradient depends on all images of its pass."""
        x, gate, mean, rstd, scale, shift = ctx.saved_tensors
        gated, sums, leak = _summed(x, dy, gate, mean, scale, shift, ctx.leak)
        (groups, parts), (beside, channels), length = sums.shape[:2], sums.shape[3:], x.numel() // mean.numel()
        dweight, dbias, slope, level = x.new_empty(4, *mean.shape, dtype=torch.float32).unbind()
        sizes, blocks = _blocks(channels)
        jit().finish_sums[(groups, blocks)](
            sums, mean, rstd, scale, dweight, dbias, slope, level, length, parts, beside, **sizes
        )
        dx = _blended(x, gated, scale, shift, slope, level, leak)
        return dx, dweight, dbias, gated if ctx.with_skip else None, None, None


class FusedAffineRelu(Function):
    """``relu(x * scale + shift + skip)``, scale and shift of each pass ``[R, K, C]``: BatchNorm by given statistics."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor, skip: Tensor | None, leak: float) -> Tensor:
        """All of it in one kernel."""
        scale, shift = scale.contiguous(), shift.contiguous()
        y = _applied(x, scale, shift, skip, leak)
        ctx.save_for_backward(x, _gate(y, skip, leak), scale, shift)
        ctx.leak, ctx.with_skip = leak, skip is not None
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Every image's gradient is its own."""
        x, gate, scale, shift = ctx.saved_tensors
        zero = torch.zeros_like(scale)
        gated, sums, leak = _summed(x, dy, gate, zero, scale, shift, ctx.leak)
        dshift, dscale = (total.view_as(scale) for total in sums.sum((1, 3)).unbind(1))
        dx = _blended(x, gated, scale, shift, zero, zero, leak) if ctx.needs_input_grad[0] else None
        return dx, dscale, dshift, gated if ctx.with_skip else None, None


def _applied(x: Tensor, scale: Tensor, shift: Tensor, skip: Tensor | None, leak: float) -> Tensor:
    skip = None if skip is None else skip.contiguous(memory_format=torch.channels_last)
    y, (groups, size) = torch.empty_like(x), _sizes(x, scale)
    grid, sizes = _elementwise(size, groups, scale.shape[2])
    jit().affine[grid](x, scale, shift, skip, y, size, **sizes, LEAK=leak)
    return y


def _gate(y: Tensor, skip: Tensor | None, leak: float) -> Tensor | None:
    """What ReLU's gate is read from on the way back, where it depends on more than the input."""
    return y if leak != 1 and skip is not None else None


def _summed(
    x: Tensor, dy: Tensor, gate: Tensor | None, centre: Tensor, scale: Tensor, shift: Tensor, leak: float
) -> tuple[Tensor, Tensor, float]:
    """The gated gradient, sums of it and of it times ``x - centre``, and the leak of a gate it still has to pass.

    Where a sum came in, it is written out: it is the gradient of the other summand too.
    """
    dy = dy.contiguous(memory_format=torch.channels_last)
    gated = dy if gate is None else torch.empty_like(dy)
    (groups, size), channels = _sizes(x, scale), scale.shape[2]
    cut = _cut(size // channels, groups, channels)
    sums = cut.empty(x, groups)
    jit().sums[cut.grid(groups)](
        x, dy, gate, gated, centre, scale, shift, sums, cut.rows, cut.chunk, **cut.sizes,
        GATE=gate is not None, LEAK=leak,
    )  # fmt: skip
    return gated, sums, leak if gate is None else 1.0


def _blended(x: Tensor, dy: Tensor, scale: Tensor, shift: Tensor, slope: Tensor, level: Tensor, leak: float) -> Tensor:
    dx, (groups, size) = torch.empty_like(x), _sizes(x, scale)
    grid, sizes = _elementwise(size, groups, scale.shape[2])
    jit().blend[grid](x, dy, scale, shift, slope, level, dx, size, **sizes, LEAK=leak)
    return dx


def _elementwise(size: int, groups: int, channels: int) -> tuple[tuple[int, int], dict[str, int]]:
    """Programs of passes with so many numbers, and a kernel's sizes; a grid's second side has 65,535 places at most."""
    period = channels // gcd(channels, BLOCK)  # blocks until a channel comes at the same place again
    sizes = {"C": channels, "PERIOD": period, "BLOCK": BLOCK, "REPEAT": REPEAT}
    return (-(-size // (period * BLOCK * REPEAT)) * period, groups), sizes


def _sizes(x: Tensor, scale: Tensor) -> tuple[int, int]:
    """How many passes there are, and how many numbers each has."""
    groups = scale.shape[0] * scale.shape[1]
    return groups, x.numel() // groups


def fold_in(mean: Tensor, var: Tensor, seen_mean: Tensor, seen_var: Tensor, momentum: float, unbias: float) -> None:
    """Running statistics ``[R, C]`` after the passes, in place."""
    replicas, passes, channels = seen_mean.shape
    sizes, blocks = _blocks(channels)
    jit().fold[(replicas, blocks)](mean, var, seen_mean, seen_var, passes, momentum, unbias, **sizes)


class Cut(NamedTuple):
    """How summing programs share a pass: in parts, each of rows of ``beside`` pixels."""

    beside: int
    channels: int
    rows: int
    parts: int
    chunk: int  # rows of one part, in whole blocks
    blocks: int  # programs beside each other in a row
    width: int  # numbers of a row that each of them takes

    @property
    def sizes(self) -> dict[str, int]:
        """The constants of a summing kernel."""
        return {"C": self.channels, "ROW": self.beside * self.channels, "BC": self.width, "BL": LENGTH}

    def grid(self, groups: int) -> tuple[int, int]:
        """Programs of so many passes."""
        return groups * self.blocks, self.parts

    def empty(self, x: Tensor, groups: int) -> Tensor:
        """Room for both sums of every part."""
        return x.new_empty(groups, self.parts, 2, self.beside, self.channels, dtype=torch.float32)


def _cut(pixels: int, groups: int, channels: int) -> Cut:
    """Many parts for a single pass, but each with a few blocks to do; rows that fill whole programs, where they can."""
    beside = WIDTH // gcd(WIDTH, channels)
    beside = beside if channels % SHORT == 0 and pixels % beside == 0 else 1
    rows, (sizes, blocks) = pixels // beside, _blocks(beside * channels)
    parts = max(1, min(PROGRAMS // (groups * blocks), rows // (4 * LENGTH), 256))
    chunk = -(-rows // (parts * LENGTH)) * LENGTH
    return Cut(beside, channels, rows, parts, chunk, blocks, sizes["BC"])


def _blocks(channels: int) -> tuple[dict[str, int], int]:
    """A kernel's sizes, and how many of its programs lie side by side."""
    block = min(1 << max(channels - 1, 1).bit_length(), WIDTH)
    return {"C": channels, "BC": block}, -(-channels // block)
