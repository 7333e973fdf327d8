"""Max-pooling of 2x2 pixels on a GPU; the library writes and reads an index of eight bytes for every number."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import max_pool2d

from gradcast.replicas.passes.fused import applies_to
from gradcast.replicas.passes.kernels import jit

BLOCK = 1024  # numbers a program takes


class MaxPool(Function):
    """The largest of every 2x2 pixels of images channels-last."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """All pixels in one kernel."""
        images, channels, height, width = x.shape
        shape = (images, channels, height // 2, width // 2)
        y = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        jit().largest[(-(-y.numel() // BLOCK),)](x, y, y.numel(), width, channels, BLOCK=BLOCK)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        """Which one was the largest is found again."""
        (x,) = ctx.saved_tensors
        dy, dx = dy.contiguous(memory_format=torch.channels_last), torch.empty_like(x)
        grid = (-(-dy.numel() // BLOCK),)
        jit().to_the_largest[grid](x, dy, dx, dy.numel(), x.shape[3], x.shape[1], BLOCK=BLOCK)
        return dx


def pooled(
    x: Float[Tensor, "n c h w"],
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """``max_pool2d``, by our kernels where they take it."""
    halves = kernel_size in (2, (2, 2)) and stride in (None, 2, (2, 2)) and not (ceil_mode or return_indices)
    plain = padding in (0, (0, 0)) and dilation in (1, (1, 1))
    if halves and plain and applies_to(x) and x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0:
        return MaxPool.apply(x)  # type: ignore[no-untyped-call]
    return max_pool2d(x, kernel_size, stride, padding, dilation, ceil_mode, return_indices)  # type: ignore[call-overload]
