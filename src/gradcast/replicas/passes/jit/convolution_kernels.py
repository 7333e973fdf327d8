"""3x3 convolutions with padding, and their weight gradients, one for each pass.

Images lie channels-last, so the ``3 C`` numbers that a 3x3 filter reads from one image row are contiguous: a
convolution is a matrix product of such runs with the filter's rows, and the weight gradient of a task is the product
of its images' runs with the slopes (output gradients) that see them.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["rows"])
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
