"""GPU kernels for what no library offers in one call, above all convolutions with one weight gradient a task.

Images lie channels-last, so the ``3 C`` numbers that a 3x3 filter reads from one image row are contiguous: a
convolution is a matrix product of such runs with the filter's rows, and the weight gradient of a task is the product
of its images' runs with the slopes (output gradients) that see them. All sums are in a fixed order, so that results
repeat bit for bit.

A kernel is compiled anew for every value of a constant, so a size is one only where that makes the kernel faster: deep
networks have dozens of them.
"""

import triton
import triton.language as tl
from triton import OutOfResources as OutOfResources


@triton.jit
def convolution(
    x, w, y, columns, rows,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, HO: tl.constexpr, WO: tl.constexpr, O: tl.constexpr,
    STRIDE: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr, BO: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A band of one replica's output rows, for a block of its images' columns and of channels.

    Going down, every input row is read once and gives its share to all output rows that see it.
    """
    RUN: tl.constexpr = 3 * C
    bands = tl.cdiv(HO, rows)
    replica = tl.program_id(2).to(tl.int64)
    first = tl.program_id(0) % bands * rows
    p = tl.program_id(0) // bands * BP + tl.arange(0, BP)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    q = tl.arange(0, BQ)
    image = p // WO
    across = p % WO * STRIDE
    seen = (p < columns)[:, None] & (q < RUN)[None, :]
    seen = seen & ((across > 0)[:, None] | (q >= C)[None, :]) & ((across + 1 < W)[:, None] | (q < 2 * C)[None, :])
    runs = x + replica * (columns // WO) * (H * W * C) + ((image * (H * W) + across - 1) * C)[:, None] + q[None, :]
    filters = w + replica * (O * 3 * RUN) + (o * (3 * RUN))[None, :] + q[:, None]
    known = (q < RUN)[:, None] & (o < O)[None, :]
    top = tl.load(filters, mask=known, other=0.0)
    middle = tl.load(filters + RUN, mask=known, other=0.0)
    bottom = tl.load(filters + 2 * RUN, mask=known, other=0.0)
    out = y + replica * columns * (HO * O) + ((image * (HO * WO) + p % WO) * O)[:, None] + o[None, :]
    kept = (p < columns)[:, None] & (o < O)[None, :]
    next = tl.zeros((BP, BO), tl.float32)
    after = tl.zeros((BP, BO), tl.float32)
    for h in range(first - (3 - STRIDE), tl.minimum(first + rows, HO)):
        r = h * STRIDE + 1
        row = tl.load(runs + r * (W * C), mask=seen & (r >= 0) & (r < H), other=0.0)
        now = tl.dot(row, bottom, next, input_precision=PRECISION)
        if STRIDE == 1:
            next = tl.dot(row, middle, after, input_precision=PRECISION)
            after = tl.dot(row, top, input_precision=PRECISION)
        else:
            above = tl.load(runs + (r - 1) * (W * C), mask=seen & (r > 0), other=0.0)
            now = tl.dot(above, middle, now, input_precision=PRECISION)
            next = tl.dot(row, top, input_precision=PRECISION)
        tl.store(out + h * (WO * O), now.to(y.dtype.element_ty), mask=kept & (h >= first))


@triton.jit
def weight_gradient(
    x, dy, out, pixels, chunk,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, HO: tl.constexpr, WO: tl.constexpr, O: tl.constexpr,
    STRIDE: tl.constexpr, BP: tl.constexpr, BQ: tl.constexpr, BS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A block of one pass's weight gradient, summed over one part of its pixels.

    With stride 1 the three slopes above one another that see a run of a row stand side by side: their product with the
    run is the gradient of all nine places of the filter. With stride 2 the three runs that one slope sees do.
    """
    TALL: tl.constexpr = 3 if STRIDE == 1 else 1
    SLOPES: tl.constexpr = TALL * O
    RUNS: tl.constexpr = 9 * C // TALL
    QS: tl.constexpr = (RUNS + BQ - 1) // BQ
    group = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    q = tl.program_id(2) % QS * BQ + tl.arange(0, BQ)
    s = tl.program_id(2) // QS * BS + tl.arange(0, BS)
    x += group * (pixels // (HO * WO)) * (H * W * C)
    dy += group * pixels * O
    up = TALL // 2 - s // O
    down = q // (3 * C) - (1 - TALL // 2)
    along = q % (3 * C)
    slope_at = up * (WO * O) + s % O
    run_at = down * (W * C) + along - C
    total = tl.zeros((BS, BQ), tl.float32)
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, pixels), BP):
        p = start + tl.arange(0, BP)
        h = p // WO % HO
        across = p % WO * STRIDE
        mask = (p < pixels)[:, None] & (s < SLOPES)[None, :]
        if STRIDE == 1:
            mask = mask & (h[:, None] + up[None, :] >= 0) & (h[:, None] + up[None, :] < HO)
        slopes = tl.load(dy + (p * O)[:, None] + slope_at[None, :], mask=mask, other=0.0)
        mask = (p < pixels)[:, None] & (q < RUNS)[None, :] & ((across > 0)[:, None] | (along >= C)[None, :])
        mask = mask & ((across + 1 < W)[:, None] | (along < 2 * C)[None, :])
        if STRIDE != 1:
            mask = mask & ((h > 0)[:, None] | (down >= 0)[None, :])
        at = ((p // (HO * WO) * H + h * STRIDE) * W + across) * C
        runs = tl.load(x + at[:, None] + run_at[None, :], mask=mask, other=0.0)
        total = tl.dot(tl.trans(slopes), runs, total, input_precision=PRECISION)
    at = (part * tl.num_programs(0) + group) * (O * 9 * C) + ((s % O * TALL + s // O) * RUNS)[:, None] + q[None, :]
    tl.store(out + at, total, mask=(s < SLOPES)[:, None] & (q < RUNS)[None, :])


@triton.jit(do_not_specialize=["length", "chunk"])
def moments(x, out, length, chunk, C: tl.constexpr, BC: tl.constexpr, BL: tl.constexpr):
    """Sums of the deviations from a pass's first pixel, and of their squares, for one part of a pass."""
    group = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    x += group * length * C
    origin = tl.load(x + c, mask=c < C, other=0.0).to(tl.float32)
    first = tl.zeros((BL, BC), tl.float32)
    second = tl.zeros((BL, BC), tl.float32)
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, length), BL):
        i = start + tl.arange(0, BL)
        mask = (i < length)[:, None] & (c < C)[None, :]
        value = tl.load(x + (i * C)[:, None] + c[None, :], mask=mask, other=0.0).to(tl.float32)
        value = tl.where(mask, value - origin[None, :], 0.0)
        first += value
        second += value * value
    at = (group * tl.num_programs(1) + part) * 2 * C + c
    tl.store(out + at, tl.sum(first, 0), mask=c < C)
    tl.store(out + at + C, tl.sum(second, 0), mask=c < C)


@triton.jit
def total(sums, parts, c, C, BC: tl.constexpr):
    """Both sums of a pass over its parts, a few parts at a time."""
    first = tl.zeros((8, BC), tl.float32)
    second = tl.zeros((8, BC), tl.float32)
    for start in range(0, parts, 8):
        part = start + tl.arange(0, 8)
        at = part[:, None] * (2 * C) + c[None, :]
        mask = (part < parts)[:, None] & (c < C)[None, :]
        first += tl.load(sums + at, mask=mask, other=0.0)
        second += tl.load(sums + at + C, mask=mask, other=0.0)
    return tl.sum(first, 0), tl.sum(second, 0)


@triton.jit(do_not_specialize=["length", "parts", "passes", "weight_stride", "bias_stride", "C"])
def finish_moments(
    x, sums, weight, bias, mean, var, rstd, scale, shift, length, eps, parts, passes, weight_stride, bias_stride,
    C, BC: tl.constexpr,
):  # fmt: skip
    """Mean, variance, and the scale and shift they lead to, of one pass."""
    group = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    first, second = total(sums + group * parts * (2 * C), parts, c, C, BC)
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


@triton.jit(do_not_specialize=["length", "chunk"])
def sums(
    x, dy, y, gated, mean, scale, shift, out, length, chunk,
    C: tl.constexpr, BC: tl.constexpr, BL: tl.constexpr, GATE: tl.constexpr, LEAK: tl.constexpr,
):  # fmt: skip
    """Sums of dy and of dy (x - mean) for one part of a pass, dy gated by ReLU; GATE writes the gated dy out.

    Without GATE, ReLU's input is computed again.
    """
    group = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    base = group * length * C
    centre = tl.load(mean + group * C + c, mask=c < C, other=0.0)
    a = tl.load(scale + group * C + c, mask=c < C, other=0.0)
    b = tl.load(shift + group * C + c, mask=c < C, other=0.0)
    first = tl.zeros((BL, BC), tl.float32)
    second = tl.zeros((BL, BC), tl.float32)
    for start in range(part * chunk, tl.minimum((part + 1) * chunk, length), BL):
        i = start + tl.arange(0, BL)
        mask = (i < length)[:, None] & (c < C)[None, :]
        at = base + (i * C)[:, None] + c[None, :]
        slope = tl.load(dy + at, mask=mask, other=0.0).to(tl.float32)
        value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        if GATE:
            slope = tl.where(tl.load(y + at, mask=mask, other=0.0) > 0, slope, LEAK * slope)
            tl.store(gated + at, slope.to(gated.dtype.element_ty), mask=mask)
        elif LEAK != 1.0:
            slope = tl.where(value * a[None, :] + b[None, :] > 0, slope, LEAK * slope)
        first += slope
        second += slope * (value - centre[None, :])
    at = (group * tl.num_programs(1) + part) * 2 * C + c
    tl.store(out + at, tl.sum(first, 0), mask=c < C)
    tl.store(out + at + C, tl.sum(second, 0), mask=c < C)


@triton.jit(do_not_specialize=["length", "parts", "C"])
def finish_sums(
    sums, mean, rstd, scale, dweight, dbias, slope, level, length, parts, C, BC: tl.constexpr
):  # fmt: skip
    """Gradients of weight and bias of one pass, and what ``blend`` needs."""
    group = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    first, second = total(sums + group * parts * (2 * C), parts, c, C, BC)
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
