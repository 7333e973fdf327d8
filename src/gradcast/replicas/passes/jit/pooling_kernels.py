"""The largest of every 2x2 pixels, and the way back."""

import triton
import triton.language as tl


@triton.jit
def _corner(i, W, C):
    """Where the window of each output number begins; images lie one below the other, and have an even height."""
    place = i // C
    row = (place // (W // 2)).to(tl.int64)
    return (2 * row * W + 2 * (place % (W // 2))) * C + i % C


@triton.jit(do_not_specialize=["size"])
def largest(x, y, size, W, C, BLOCK: tl.constexpr):
    """The largest of every window, not a number where one is not."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    start = x + _corner(i, W, C)
    best = tl.load(start, mask=inside).to(tl.float32)
    for k in tl.static_range(1, 4):
        value = tl.load(start + (k // 2) * W * C + (k % 2) * C, mask=inside).to(tl.float32)
        best = tl.where((value > best) | (value != value), value, best)
    tl.store(y + i, best.to(y.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["size"])
def to_the_largest(x, dy, dx, size, W, C, BLOCK: tl.constexpr):
    """The gradient goes to the first that is the largest, as the library's does, and nothing to the others."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    start = _corner(i, W, C)
    best = tl.load(x + start, mask=inside).to(tl.float32)
    winner = tl.zeros((BLOCK,), tl.int32)
    for k in tl.static_range(1, 4):
        value = tl.load(x + start + (k // 2) * W * C + (k % 2) * C, mask=inside).to(tl.float32)
        better = (value > best) | (value != value)
        best = tl.where(better, value, best)
        winner = tl.where(better, k, winner)
    slope = tl.load(dy + i, mask=inside).to(tl.float32)
    for k in tl.static_range(4):
        share = tl.where(winner == k, slope, 0.0).to(dx.dtype.element_ty)
        tl.store(dx + start + (k // 2) * W * C + (k % 2) * C, share, mask=inside)
