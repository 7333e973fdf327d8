"""GEM's projection: the gradient nearest to g among those that agree with every past task's gradient.

Its dual is a programme in as many unknowns as there are past tasks,

    minimise  1/2 v' (G G') v + (G g)' v    subject to  v >= margin,        projected gradient  g + G' v,

solved here exactly by the active-set method of Lawson and Hanson, for all replicas at once, in float64, wherever the
tensors live.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.errors import GradcastError
from gradcast.replicas.passes.kernels import installed

PIECE = 4096  # numbers of a gradient that a GPU multiplies at once
HALVES = 2  # and a host, whose cores take one each


def project(
    rows: Float[Tensor, "r t p"], gradient: Float[Tensor, "r p"], *, margin: float, eps: float = 0.0
) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
    """The projected gradient, and which replicas violated a constraint; the others keep their gradient bit for bit.

    With ``margin > 0`` every past gradient is added with at least that weight wherever there was a violation.
    ``eps`` is added to the diagonal of the Gram matrix (the original GEM release: 1e-3).
    All replicas are projected and a mask chooses: on a GPU, looking at the mask would make the host wait.
    """
    projected, inner = _projected(rows, gradient, margin, eps)
    violated = (inner < 0).any(-1)
    return torch.where(violated.unsqueeze(1), projected, gradient), violated


def _projected(
    rows: Float[Tensor, "n t p"], gradient: Float[Tensor, "n p"], margin: float, eps: float
) -> tuple[Float[Tensor, "n p"], Float[Tensor, "n t"]]:
    """``g + G' v`` for every replica, and ``G g``."""
    gram, inner = _products(rows, gradient)
    v = solve(gram + eps * torch.eye(rows.shape[1], dtype=gram.dtype, device=gram.device), inner, margin)
    weights = v.to(rows.dtype)  # as a matrix product the sum might be rounded to TF32 on a GPU
    added = (weights.unsqueeze(-1) * rows).sum(1) if rows.is_cuda else (weights.unsqueeze(1) @ rows).squeeze(1)
    return gradient + added, inner


def _products(
    rows: Float[Tensor, "n t p"], gradient: Float[Tensor, "n p"]
) -> tuple[Float[Tensor, "n t t"], Float[Tensor, "n t"]]:
    """``G G'`` and ``G g`` in one product, in float64.

    The parameters are cut into pieces: a product of few long rows would keep few cores busy.
    """
    together = len(rows) if rows.is_cuda else 1  # on a host one replica after another, which a cache may hold
    pairs = zip(rows.split(together), gradient.split(together), strict=True)
    products = torch.cat([_squares(*pair) for pair in pairs])
    size = rows.shape[1]
    return products[:, :size, :size], products[:, :size, size]


def _squares(rows: Float[Tensor, "n t p"], gradient: Float[Tensor, "n p"]) -> Float[Tensor, "n u u"]:
    """Inner products of the rows and the gradient, which is the last of u = t + 1."""
    replicas, size, length = rows.shape
    pieces, line = (-(-length // PIECE), 64) if rows.is_cuda else (HALVES, 1)
    whole = -(-length // (pieces * line)) * pieces * line
    wide = rows.new_empty(replicas, size + 1, whole, dtype=torch.float64)
    wide[:, :size, :length] = rows
    wide[:, size, :length] = gradient
    wide[..., length:] = 0
    cut = wide.unflatten(-1, (pieces, -1)).transpose(1, 2)
    products: Tensor = cut @ cut.mT
    return products.sum(1)


def solve(
    gram: Float[Tensor, "n t t"], inner: Float[Tensor, "n t"], margin: float | Float[Tensor, " n"] = 0.0
) -> Float[Tensor, "n t"]:
    """Solutions v of n programmes, to rounding: ``v >= margin``, ``w = gram v + inner >= 0``, ``(v - margin) w = 0``.

    ``gram`` may be singular; where rows nearly repeat, ``w`` may be below zero by 1e-8 of its terms. Non-finite input
    gives a meaningless but finite-time answer; the caller checks its loss.
    """
    gram, inner = gram.double(), inner.double()
    low = margin.double().unsqueeze(-1) if isinstance(margin, Tensor) else torch.full_like(inner[:, :1], margin)
    length = gram.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    length = torch.where(length > 0, length, 1.0)
    # Rows of G differ in length by orders of magnitude: with u = length * (v - low) the matrix has a unit diagonal
    # and u >= 0.
    unit = gram / (length.unsqueeze(-1) * length.unsqueeze(-2))
    pull = -(inner + low * gram.sum(-1)) / length
    noise = (inner.abs() + low * gram.abs().sum(-1)) / length
    precision, rounds = 8 * pull.shape[-1] * torch.finfo(pull.dtype).eps, 30 * pull.shape[-1] + 10
    programme = _on_device if gram.is_cuda and installed() else _nonnegative
    return low + programme(unit, pull, noise, precision, rounds) / length


def _on_device(
    unit: Float[Tensor, "n t t"], pull: Float[Tensor, "n t"], noise: Float[Tensor, "n t"], precision: float, rounds: int
) -> Float[Tensor, "n t"]:
    """The same as a kernel; not a number where no solution is found."""
    from gradcast.gradients.active_set import nonnegative  # a GPU's installation of torch brings the compiler

    size, u = pull.shape[-1], torch.empty_like(pull)
    padded = max(32, 1 << (size - 1).bit_length())  # one kernel for up to 32 past tasks
    arguments = (unit.contiguous(), pull.contiguous(), noise.contiguous(), u, size, precision, rounds)
    nonnegative[(len(pull),)](*arguments, T=padded, num_warps=4)
    return u


def _nonnegative(
    unit: Float[Tensor, "n t t"], pull: Float[Tensor, "n t"], noise: Float[Tensor, "n t"], precision: float, rounds: int
) -> Float[Tensor, "n t"]:
    """Minimise 1/2 u' unit u - pull' u over u >= 0; ``noise`` times the machine precision is the error in ``pull``.

    Each round solves for the free unknowns. If all are positive the best fixed one is freed, else the first to reach
    zero on the way is fixed. An unknown that would leave zero downwards (rounding), or whose row lies in the span of
    those of the free ones (a repeated row), is barred until another one has moved.
    """
    u = torch.zeros_like(pull)
    free = torch.zeros_like(pull, dtype=torch.bool)
    entering, barred = free.clone(), free.clone()
    active = torch.ones(len(pull), 1, dtype=torch.bool, device=pull.device)
    for _ in range(rounds):
        target, spread = _solve_free(unit, torch.stack([pull, entering.to(pull.dtype)], -1), free).unbind(-1)
        # a column of the inverse: one over the row's squared distance from that span, times what it is made of there
        apart = spread.abs().sum(-1, keepdim=True) * precision < 1
        refused = entering & ~((target > 0) & apart)
        was_refused = refused.any(-1, keepdim=True)
        blocked = free & ~(target > 0) & ~was_refused
        was_blocked = blocked.any(-1, keepdim=True)

        way = torch.where(blocked, u / (u - target), 1.0)  # until it reaches zero, as a share of the whole
        share = way.amin(-1, keepdim=True)
        moved = torch.where(free, u + share * (target - u), 0.0)
        hit = blocked & (way == share)
        u = torch.where(active & ~was_refused, torch.where(hit, 0.0, moved), u)
        free = torch.where(active, free & ~hit & ~refused, free)
        barred = torch.where(was_refused, barred | refused, False)

        downhill = pull - (unit @ u.unsqueeze(-1)).squeeze(-1)
        tolerance = precision * (noise + (unit.abs() @ u.unsqueeze(-1)).squeeze(-1))
        candidates = ~free & ~barred & (downhill > tolerance) & active & ~was_blocked
        best = torch.where(candidates, downhill, -torch.inf).argmax(-1, keepdim=True)
        entering = torch.zeros_like(free).scatter(-1, best, True) & candidates
        free = free | entering
        active = active & (was_blocked | candidates.any(-1, keepdim=True))
        if not active.any():
            residual = pull - (unit @ u.unsqueeze(-1)).squeeze(-1)
            left = _solve_free(unit, residual.unsqueeze(-1), free).squeeze(-1)
            return (u + left).clamp_min(0)  # one refinement: errors of the last solve
    raise GradcastError(
        "the projection's programme found no solution; set learner.qp_eps to 1e-3 to make it strictly convex"
    )


def _solve_free(
    unit: Float[Tensor, "n t t"], right: Float[Tensor, "n t m"], free: Bool[Tensor, "n t"]
) -> Float[Tensor, "n t m"]:
    """Solve for the free unknowns, the others zero; a singular system answers with non-finite numbers."""
    both = free.unsqueeze(-1) & free.unsqueeze(-2)
    system = torch.where(both, unit, torch.diag_embed((~free).to(unit.dtype)))
    solution: Tensor = torch.linalg.solve_ex(system, torch.where(free.unsqueeze(-1), right, 0.0)).result
    return solution
