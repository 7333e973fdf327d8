"""The kernel behind ``cone.solve`` on a GPU, against the solver for the CPU and the conditions of optimality."""

import pytest
import torch
from torch import Tensor

import tests.interpreted  # noqa: F401
from gradcast.gradients import cone
from gradcast.randomness import torch_generator
from tests.gradients.test_cone import CIRCLES, kkt, whole

PROGRAMMES, LENGTH = 3, 40
PRECISION = 1e-14


def programmes(kind: str, size: int) -> tuple[Tensor, Tensor]:
    """Rows and gradients of very different lengths; most rows are opposed."""
    generator = torch_generator(size, kind)

    def draw(*shape: int) -> Tensor:
        return torch.randn(PROGRAMMES, *shape, generator=generator, dtype=torch.float64)

    rows = draw(size, LENGTH)
    if kind == "nearly parallel":
        rows = 1e-3 * rows + draw(1, LENGTH)
    if kind == "repeated":
        rows[:, size // 2 :] = rows[:, : size - size // 2].clone()
    if kind == "zero":
        rows[:, -1] = 0
    gradient = (draw(LENGTH) - 2 * rows.mean(1)) * torch.tensor([[1.0], [1e-5], [1e3]])
    if kind == "superseded":  # the first row is the best start, and no part of the solution
        rows[:, 0] = rows[:, 1:].sum(1) + gradient.sign()
        gradient = gradient.sign() - 2 * rows[:, 1:].sum(1)
    return rows * 10 ** draw(size, 1), gradient


@pytest.mark.parametrize("margin", [0.0, 0.5])
@pytest.mark.parametrize("size", [1, 2, 5, 19])
@pytest.mark.parametrize("kind", ["random", "nearly parallel", "repeated", "zero", "superseded"])
def test_the_kernel_solves_what_the_cpu_solves(
    kind: str, size: int, margin: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, gradient = programmes(kind, size)
    gram, inner = rows @ rows.mT, (rows @ gradient.unsqueeze(-1)).squeeze(-1)
    expected = cone.solve(gram, inner, margin)
    monkeypatch.setattr(cone, "_nonnegative", cone._on_device)
    found = cone.solve(gram, inner, margin)
    assert kkt(gram, inner, margin, found) < 1e-12
    nearest = [gradient + (v.unsqueeze(1) @ rows).squeeze(1) for v in (found, expected)]
    torch.testing.assert_close(*nearest, rtol=1e-7, atol=1e-9)  # weights of repeated rows are not unique


@pytest.mark.parametrize(("rows", "gradient"), CIRCLES)
def test_programmes_that_once_went_round_in_circles(
    rows: list[list[int]], gradient: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cone, "_nonnegative", cone._on_device)
    gram, inner = whole(rows, gradient)
    assert kkt(gram, inner, 0.0, cone.solve(gram, inner)) < 1e-12


def test_unknowns_that_do_not_meet_are_solved_one_by_one() -> None:
    unit = torch.eye(5, dtype=torch.float64).repeat(2, 1, 1)
    pull = torch.tensor([[1.0, -2.0, 3.0, 0.0, 5.0], [-1.0, -1.0, -1.0, -1.0, -1.0]], dtype=torch.float64)
    assert torch.equal(cone._on_device(unit, pull, pull.abs(), PRECISION, 20), pull.clamp_min(0))


def test_rows_that_are_dependent_to_single_precision_have_a_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cone, "_nonnegative", cone._on_device)
    generator = torch_generator(0, "dependent")
    left, right, g = (torch.randn(4, *shape, generator=generator) for shape in ((3, 2), (2, LENGTH), (LENGTH,)))
    rows, gradient = (left @ right).double(), g.double().unsqueeze(-1)
    gram, inner = rows @ rows.mT, (rows @ (gradient - rows.mean(1).unsqueeze(-1))).squeeze(-1)
    found = cone.solve(gram, inner, 0.0)
    assert found.isfinite().all()
    assert kkt(gram, inner, 0.0, found) < 1e-6


def test_too_few_rounds_give_no_number() -> None:
    unit, pull = torch.eye(3, dtype=torch.float64).repeat(2, 1, 1), torch.ones(2, 3, dtype=torch.float64)
    pull[1] = -1  # nothing to do
    found = cone._on_device(unit, pull, pull.abs(), PRECISION, 1)
    assert found[0].isnan().all()
    assert found[1].tolist() == [0.0, 0.0, 0.0]
