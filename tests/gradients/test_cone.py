from pathlib import Path

import numpy as np
import pytest
import quadprog
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gradcast.gradients.cone import project, solve

# Rows and gradient of programmes for which a rounded share, or a repeated row, once had no solution.
CIRCLES = [
    ([[-4, 3, 6], [1, 3, 1], [-6, -5, 3], [8, 6, -6], [-1, 7, 4], [-8, 6, 12]], [-1, 2, -7]),
    ([[5, 9, 8], [-2, -6, 5], [3, -7, 2], [2, 2, -4], [8, -2, 11], [10, 18, 16]], [0, 3, 9]),
    ([[8, -6, -1], [-7, -1, 3], [-8, -9, 5], [-7, -16, 7], [16, -12, -2]], [2, 7, -1]),
    ([[7, 6, -2], [-9, -9, -7], [7, 7, 1], [5, 4, -8], [14, 12, -4]], [8, -9, 4]),
    ([[-2, -8, -5], [-6, 3, 6], [0, 9, 6], [-8, 4, 7], [-4, -16, -10]], [5, -1, 4]),
]


def programme(seed: int, tasks: int, size: int = 40) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(tasks, size, generator=generator, dtype=torch.float64)
    lengths = 10 ** (4 * torch.rand(tasks, 1, generator=generator, dtype=torch.float64) - 2)
    return rows * lengths, torch.randn(size, generator=generator, dtype=torch.float64)


def with_repeats(seed: int, tasks: int, repeats: int) -> tuple[Tensor, Tensor]:
    """A programme with copies of rows, their sum, and a row of zeros."""
    rows, g = programme(seed, tasks)
    copies = rows[torch.arange(repeats) % tasks] * torch.linspace(1, 2, repeats, dtype=torch.float64).unsqueeze(1)
    rows = torch.cat([rows, copies, rows.sum(0, keepdim=True), torch.zeros(1, rows.shape[1], dtype=torch.float64)])
    return (rows @ rows.T)[None], (rows @ g)[None]


def whole(rows: list[list[int]], gradient: list[int]) -> tuple[Tensor, Tensor]:
    """A programme of whole numbers, the same on every machine."""
    wide = torch.tensor([*rows, gradient], dtype=torch.float64)
    products = (wide.unsqueeze(1) * wide.unsqueeze(0)).sum(-1)
    return products[None, :-1, :-1], products[None, :-1, -1]


def kkt(gram: Tensor, inner: Tensor, margin: Tensor | float, v: Tensor) -> float:
    """Largest violation of the optimality conditions, relative to the size of the terms."""
    low = torch.as_tensor(margin, dtype=torch.float64).expand(len(gram)).unsqueeze(-1)
    w = (gram @ v.unsqueeze(-1)).squeeze(-1) + inner
    scale = (gram.abs() @ v.abs().unsqueeze(-1)).squeeze(-1) + inner.abs() + 1e-300
    slack = (v - low) / v.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    return max(float((low - v).max()), float((-w / scale).max()), float((slack * w / scale).abs().max()))


def size_of(gram: Tensor, inner: Tensor, v: Tensor) -> Tensor:
    """The scale of a solution; where it is zero (recorded as 1e-18), that of each unknown alone."""
    alone = inner.abs() / gram.diagonal(dim1=-2, dim2=-1)
    return torch.maximum(v.abs(), alone).amax(-1)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), tasks=st.integers(1, 19), margin=st.sampled_from([0.0, 0.5, 0.7]))
def test_optimality_and_agreement_with_an_independent_solver(seed: int, tasks: int, margin: float) -> None:
    rows, g = programme(seed, tasks)
    gram, inner = rows @ rows.T, rows @ g
    v = solve(gram[None], inner[None], margin)
    assert kkt(gram[None], inner[None], margin, v) < 1e-12
    expected = quadprog.solve_qp(gram.numpy(), -inner.numpy(), np.eye(tasks), np.full(tasks, margin))[0]
    assert float((v[0] - torch.from_numpy(expected)).abs().max() / size_of(gram, inner, v[0])) < 1e-8


def test_one_task_without_margin_is_the_closed_form() -> None:
    rows, g = programme(0, 1)
    g = -g if rows[0] @ g > 0 else g
    found, violated = project(rows[None], g[None], margin=0.0)
    assert violated.tolist() == [True]
    torch.testing.assert_close(found[0], g - (rows[0] @ g) / (rows[0] @ rows[0]) * rows[0])


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6), tasks=st.integers(1, 10), repeats=st.integers(1, 10), margin=st.sampled_from([0.0, 0.5])
)
def test_repeated_dependent_and_zero_rows_give_a_valid_solution(
    seed: int, tasks: int, repeats: int, margin: float
) -> None:
    gram, inner = with_repeats(seed, tasks, repeats)
    assert kkt(gram, inner, margin, solve(gram, inner, margin)) < 1e-11


@pytest.mark.parametrize(("rows", "gradient"), CIRCLES)
def test_programmes_that_once_went_round_in_circles(rows: list[list[int]], gradient: list[int]) -> None:
    gram, inner = whole(rows, gradient)
    assert kkt(gram, inner, 0.0, solve(gram, inner)) < 1e-12


def test_more_constraints_than_dimensions() -> None:
    rows, g = programme(3, 20, size=7)
    gram, inner = rows @ rows.T, rows @ g
    v = solve(gram[None], inner[None], 0.5)
    assert kkt(gram[None], inner[None], 0.5, v) < 1e-10


def test_a_batch_gives_what_each_programme_gives_alone() -> None:
    pairs = [programme(seed, 6) for seed in range(20)]
    gram = torch.stack([rows @ rows.T for rows, _ in pairs])
    inner = torch.stack([rows @ g for rows, g in pairs])
    margin = torch.linspace(0, 0.9, 20, dtype=torch.float64)
    together = solve(gram, inner, margin)
    alone = torch.cat([solve(gram[i : i + 1], inner[i : i + 1], float(margin[i])) for i in range(20)])
    torch.testing.assert_close(together, alone, rtol=1e-10, atol=0)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), tasks=st.integers(1, 12))
def test_the_projected_gradient_violates_nothing(seed: int, tasks: int) -> None:
    rows, g = programme(seed, tasks)
    found, _ = project(rows[None], g[None], margin=0.0)
    lengths = rows.norm(dim=1) * found[0].norm()
    assert (rows @ found[0] >= -1e-12 * lengths).all()


def test_replicas_without_violation_keep_their_gradient_bit_for_bit() -> None:
    rows, g = programme(1, 3)
    agreeing = rows.sum(0) * 0 + (torch.linalg.pinv(rows) @ torch.ones(3, dtype=torch.float64))
    gradients = torch.stack([g if (rows @ g < 0).any() else -g, agreeing])
    found, violated = project(rows.expand(2, -1, -1), gradients, margin=0.5)
    assert violated.tolist() == [True, False]
    assert torch.equal(found[1], gradients[1])
    assert not torch.equal(found[0], gradients[0])


def test_eps_enters_the_diagonal() -> None:
    rows, g = programme(2, 4)
    g = g - 2 * rows.mT @ torch.linalg.solve(rows @ rows.mT, rows @ g)
    found, _ = project(rows[None], g[None], margin=0.0, eps=1e-3)
    gram = rows @ rows.T + 1e-3 * torch.eye(4, dtype=torch.float64)
    v = quadprog.solve_qp(gram.numpy(), -(rows @ g).numpy(), np.eye(4), np.zeros(4))[0]
    torch.testing.assert_close(found[0], g + torch.from_numpy(v) @ rows)


def test_non_finite_input_ends() -> None:
    gram = torch.full((1, 3, 3), torch.nan, dtype=torch.float64)
    assert solve(gram, torch.full((1, 3), torch.nan, dtype=torch.float64)).shape == (1, 3)


@pytest.mark.golden
def test_three_hundred_programmes_of_the_reference(golden: Path) -> None:
    archive = np.load(golden / "cone_qp.npz")
    sizes = archive["size"]
    assert len(sizes) == 300
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        gram = torch.from_numpy(archive["gram"][chosen, :size, :size])
        inner = torch.from_numpy(archive["inner"][chosen, :size])
        margin = torch.from_numpy(archive["margin"][chosen])
        v, expected = solve(gram, inner, margin), torch.from_numpy(archive["solution"][chosen, :size])
        assert kkt(gram, inner, margin, v) < 1e-11
        assert float(((v - expected).abs().amax(-1) / size_of(gram, inner, expected)).max()) < 1e-8
