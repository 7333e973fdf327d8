"""BatchNorm with statistics of each pass, the sum and the leaky ReLU that may follow it, and all that lead back."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows", "chunk"])
def moments(x, out, rows, chunk, C: tl.constexpr, ROW: tl.constexpr, BC: tl.constexpr, BL: tl.constexpr):
    """Sums of the deviations from a pass's first pixel, and of their squares, for one part of a pass.

    A row is one pixel or several, whose channels stand side by side; every number of a row has sums of its own.
    """
    blocks = tl.cdiv(ROW, BC)  # programs that read the same rows begin together
    group = (tl.program_id(0) // blocks).to(tl.int64)
    part = tl.program_id(1)
    column = tl.program_id(0) % blocks * BC + tl.arange(0, BC)
    inside = column < ROW
    x += group * rows * ROW
    origin = tl.load(x + column % C, mask=inside, other=0.0).to(tl.float32)
    first = tl.zeros((BL, BC), tl.float32)
    second = tl.zeros((BL, BC), tl.float32)
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, rows), BL):
        i = start + tl.arange(0, BL)
        mask = (i < rows)[:, None] & inside[None, :]
        value = tl.load(x + (i * ROW)[:, None] + column[None, :], mask=mask, other=0.0).to(tl.float32)
        value = tl.where(mask, value - origin[None, :], 0.0)
        first += value
        second += value * value
    at = (group * tl.num_programs(1) + part) * 2 * ROW + column
    tl.store(out + at, tl.sum(first, 0), mask=inside)
    tl.store(out + at + ROW, tl.sum(second, 0), mask=inside)


@triton.jit
def total(sums, parts, beside, c, C, BC: tl.constexpr):
    """Both sums of a pass over its parts and the pixels of a row, a few at a time."""
    first = tl.zeros((16, BC), tl.float32)
    second = tl.zeros((16, BC), tl.float32)
    for start in range(0, parts * beside, 16):
        place = start + tl.arange(0, 16)
        at = ((place // beside * 2 * beside + place % beside) * C)[:, None] + c[None, :]
        mask = (place < parts * beside)[:, None] & (c < C)[None, :]
        first += tl.load(sums + at, mask=mask, other=0.0)
        second += tl.load(sums + at + beside * C, mask=mask, other=0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit(do_not_specialize=["length", "parts", "beside", "passes", "weight_stride", "bias_stride", "C"])
def finish_moments(
    x, sums, weight, bias, mean, var, rstd, scale, shift, length, eps, parts, beside, passes, weight_stride,
    bias_stride, C, BC: tl.constexpr,
):  # fmt: skip
    """Mean, variance, and the scale and shift they lead to, of one pass."""
    group = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    first, second = total(sums + group * parts * beside * (2 * C), parts, beside, c, C, BC)
    first, second = first / length, second / length
    centre = tl.load(x + group * length * C + c, mask=c < C, other=0.0).to(tl.float32) + first
    spread = tl.maximum(second - first * first, 0.0)
    inverse = 1.0 / tl.sqrt_rn(spread + eps)
    factor = tl.load(weight + group // passes * weight_stride + c, mask=c < C, other=0.0) * inverse
    offset = tl.load(bias + group // passes * bias_stride + c, mask=c < C, other=0.0) - centre * factor
    out = group * C + c
    tl.store(mean + out, centre, mask=c < C)
    tl.store(var + out, spread, mask=c < C)
    tl.store(rstd + out, inverse, mask=c < C)
    tl.store(scale + out, factor, mask=c < C)
    tl.store(shift + out, offset, mask=c < C)


@triton.jit(do_not_specialize=["passes", "C"])
def fold(running_mean, running_var, mean, var, passes, momentum, unbias, C, BC: tl.constexpr):
    """Running statistics of one replica after its passes, one after another."""
    replica = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    own = replica * C + c
    centre = tl.load(running_mean + own, mask=c < C)
    spread = tl.load(running_var + own, mask=c < C)
    for k in range(passes):
        at = (replica * passes + k) * C + c
        centre += momentum * (tl.load(mean + at, mask=c < C) - centre)
        spread += momentum * (tl.load(var + at, mask=c < C) * unbias - spread)
    tl.store(running_mean + own, centre, mask=c < C)
    tl.store(running_var + own, spread, mask=c < C)


@triton.jit
def affine(
    x, scale, shift, skip, y, size,
    C: tl.constexpr, PERIOD: tl.constexpr, LEAK: tl.constexpr, BLOCK: tl.constexpr, REPEAT: tl.constexpr,
):  # fmt: skip
    """``y = x * scale + shift (+ skip)``, of which ReLU leaves a share where it is negative: all, if that is 1.

    Blocks a PERIOD apart meet the same channels, so a program reads their factors once.
    """
    group = tl.program_id(1).to(tl.int64)
    lane = tl.program_id(0) % PERIOD * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(scale + group * C + lane % C)
    b = tl.load(shift + group * C + lane % C)
    for k in tl.static_range(REPEAT):
        i = (tl.program_id(0) // PERIOD * REPEAT + k) * (PERIOD * BLOCK) + lane
        value = tl.load(x + group * size + i, mask=i < size).to(tl.float32) * a + b
        if skip is not None:
            value += tl.load(skip + group * size + i, mask=i < size).to(tl.float32)
        if LEAK != 1.0:
            value = tl.where(value > 0, value, LEAK * value)
        tl.store(y + group * size + i, value.to(y.dtype.element_ty), mask=i < size)


@triton.jit(do_not_specialize=["rows", "chunk"])
def sums(
    x, dy, y, gated, mean, scale, shift, out, rows, chunk,
    C: tl.constexpr, ROW: tl.constexpr, BC: tl.constexpr, BL: tl.constexpr, GATE: tl.constexpr, LEAK: tl.constexpr,
):  # fmt: skip
    """Sums of dy and of dy (x - mean) for one part of a pass, dy gated by ReLU; GATE writes the gated dy out.

    Without GATE, ReLU's input is computed again. Rows are those of ``moments``.
    """
    blocks = tl.cdiv(ROW, BC)  # programs that read the same rows begin together
    group = (tl.program_id(0) // blocks).to(tl.int64)
    part = tl.program_id(1)
    column = tl.program_id(0) % blocks * BC + tl.arange(0, BC)
    inside = column < ROW
    base = group * rows * ROW
    own = group * C + column % C
    centre = tl.load(mean + own, mask=inside, other=0.0)
    a = tl.load(scale + own, mask=inside, other=0.0)
    b = tl.load(shift + own, mask=inside, other=0.0)
    first = tl.zeros((BL, BC), tl.float32)
    second = tl.zeros((BL, BC), tl.float32)
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, rows), BL):
        i = start + tl.arange(0, BL)
        mask = (i < rows)[:, None] & inside[None, :]
        at = base + (i * ROW)[:, None] + column[None, :]
        slope = tl.load(dy + at, mask=mask, other=0.0).to(tl.float32)
        value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        if GATE:
            slope = tl.where(tl.load(y + at, mask=mask, other=0.0) > 0, slope, LEAK * slope)
            tl.store(gated + at, slope.to(gated.dtype.element_ty), mask=mask)
        elif LEAK != 1.0:
            slope = tl.where(value * a[None, :] + b[None, :] > 0, slope, LEAK * slope)
        first += slope
        second += slope * (value - centre[None, :])
    at = (group * tl.num_programs(1) + part) * 2 * ROW + column
    tl.store(out + at, tl.sum(first, 0), mask=inside)
    tl.store(out + at + ROW, tl.sum(second, 0), mask=inside)


@triton.jit(do_not_specialize=["length", "parts", "beside", "C"])
def finish_sums(
    sums, mean, rstd, scale, dweight, dbias, slope, level, length, parts, beside, C, BC: tl.constexpr
):  # fmt: skip
    """Gradients of weight and bias of one pass, and what ``blend`` needs."""
    group = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    first, second = total(sums + group * parts * beside * (2 * C), parts, beside, c, C, BC)
    out = group * C + c
    inverse = tl.load(rstd + out, mask=c < C, other=0.0)
    factor = tl.load(scale + out, mask=c < C, other=0.0)
    tilt = -factor * inverse * inverse * second / length
    tl.store(dweight + out, second * inverse, mask=c < C)
    tl.store(dbias + out, first, mask=c < C)
    tl.store(slope + out, tilt, mask=c < C)
    tl.store(level + out, -factor * first / length - tilt * tl.load(mean + out, mask=c < C, other=0.0), mask=c < C)


@triton.jit
def blend(
    x, dy, scale, shift, slope, level, dx, size,
    C: tl.constexpr, PERIOD: tl.constexpr, LEAK: tl.constexpr, BLOCK: tl.constexpr, REPEAT: tl.constexpr,
):  # fmt: skip
    """``dx = dy * scale + x * slope + level``, dy gated by a ReLU whose input is computed again; 1 for none."""
    group = tl.program_id(1).to(tl.int64)
    lane = tl.program_id(0) % PERIOD * BLOCK + tl.arange(0, BLOCK)
    at = group * C + lane % C
    a = tl.load(scale + at)
    b = tl.load(shift + at)
    tilt = tl.load(slope + at)
    base = tl.load(level + at)
    for k in tl.static_range(REPEAT):
        i = (tl.program_id(0) // PERIOD * REPEAT + k) * (PERIOD * BLOCK) + lane
        value = tl.load(x + group * size + i, mask=i < size).to(tl.float32)
        gradient = tl.load(dy + group * size + i, mask=i < size).to(tl.float32)
        if LEAK != 1.0:
            gradient = tl.where(value * a + b > 0, gradient, LEAK * gradient)
        value = gradient * a + value * tilt + base
        tl.store(dx + group * size + i, value.to(dx.dtype.element_ty), mask=i < size)
