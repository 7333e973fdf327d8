"""The projection's programme as a GPU kernel: one program a replica, no copy to the host and no waiting for it."""

import triton
import triton.language as tl


@triton.jit
def _swept(a, k, sign, row, column):
    """The symmetric sweep of index k: over swept indices, minus the inverse; ``sign`` -1 undoes it."""
    pivot = tl.sum(tl.sum(tl.where((row == k) & (column == k), a, 0.0), 1), 0)
    along = tl.sum(tl.where(row == k, a, 0.0), 0)
    edge = along / pivot
    other = tl.sum(tl.where(column == k, a, 0.0), 1)
    inner = a - other[:, None] * edge[None, :]
    inner = tl.where(row == k, sign * edge[None, :], inner)
    inner = tl.where(column == k, sign * (other / pivot)[:, None], inner)
    return tl.where((row == k) & (column == k), -1.0 / pivot, inner)


@triton.jit
def nonnegative(unit, pull, noise, out, size, precision, limit, T: tl.constexpr):
    """Minimise ``1/2 u' unit u - pull' u`` over ``u >= 0``; the rounds are those of ``cone._nonnegative``.

    A tableau keeps minus the inverse over the free unknowns, so that freeing or fixing one is a sweep. Where no
    solution is found within ``limit`` rounds the answer is not a number.
    """
    program = tl.program_id(0)
    i = tl.arange(0, T)
    row = i[:, None]
    column = i[None, :]
    inside = (row < size) & (column < size)
    matrix = tl.load(unit + program * size * size + row * size + column, mask=inside, other=0.0)
    aim = tl.load(pull + program * size + i, mask=i < size, other=-1.0)
    error = tl.load(noise + program * size + i, mask=i < size, other=0.0)
    table = tl.where(inside, matrix, tl.where(row == column, 1.0, 0.0))
    u = tl.zeros((T,), tl.float64)
    free = i < 0
    barred = i < 0
    entering = tl.full((), -1, tl.int32)
    stuck = tl.full((), 0, tl.int32)
    active = tl.full((), 1, tl.int32)
    rounds = tl.full((), 0, tl.int32)
    while (active == 1) & (rounds < limit):
        rounds += 1
        target = -tl.sum(tl.where(column >= 0, table, 0.0) * tl.where(free, aim, 0.0)[None, :], 1)
        target = tl.where(free, target, 0.0)
        refused = free & (i == entering) & ~(target > 0)
        was_refused = tl.max(refused.to(tl.int32), 0)
        blocked = free & ~(target > 0) & (was_refused == 0)
        was_blocked = tl.max(blocked.to(tl.int32), 0)
        way = tl.where(blocked, u / tl.where(blocked, u - target, 1.0), 1.0)
        share = tl.min(way, 0)
        hit = blocked & (way == share)
        moved = tl.where(free & ~hit, u + share * (target - u), 0.0)
        u = tl.where(was_refused == 1, u, moved)
        leaving = hit | refused
        barred = (barred | refused) & ((was_refused == 1) | (stuck == 1))  # until another unknown has moved
        stuck = tl.full((), 0, tl.int32)
        while tl.max(leaving.to(tl.int32), 0) == 1:
            k = tl.min(tl.where(leaving, i, T), 0)
            table = _swept(table, k, -1.0, row, column)
            free = free & (i != k)
            leaving = leaving & (i != k)
        downhill = aim - tl.sum(matrix * u[None, :], 1)
        tolerance = precision * (error + tl.sum(tl.abs(matrix) * u[None, :], 1))
        candidates = ~free & ~barred & (downhill > tolerance) & (was_blocked == 0) & (i < size)
        any_left = tl.max(candidates.to(tl.int32), 0)
        entering = tl.full((), -1, tl.int32)
        if any_left == 1:
            k = tl.argmax(tl.where(candidates, downhill, float("-inf")), 0).to(tl.int32)
            pivot = tl.sum(tl.sum(tl.where((row == k) & (column == k), table, 0.0), 1), 0)
            made_of = tl.sum(tl.sum(tl.where(free[:, None] & (column == k), tl.abs(table), 0.0), 1), 0)
            if pivot > precision * (1 + made_of):
                table = _swept(table, k, 1.0, row, column)
                free = free | (i == k)
                entering = k
            else:  # it lies in the span of the free ones
                barred = barred | (i == k)
                stuck = tl.full((), 1, tl.int32)
        active = tl.maximum(was_blocked, any_left)
    for _ in range(2):  # refinement against the matrix itself takes away what the sweeps have lost
        rest = aim - tl.sum(matrix * u[None, :], 1)
        step = -tl.sum(table * tl.where(free, rest, 0.0)[None, :], 1)
        u = tl.where(free, tl.maximum(u + step, 0.0), 0.0)
    u = tl.where(active == 1, float("nan"), u)  # no solution within the limit
    tl.store(out + program * size + i, u, mask=i < size)
