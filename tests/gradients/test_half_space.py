import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gradcast.gradients.cone import project
from gradcast.gradients.half_space import project_one


def pair(seed: int, replicas: int = 6, size: int = 9) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(2, replicas, size, generator=generator, dtype=torch.float64))  # type: ignore[return-value]


def test_by_hand() -> None:
    reference = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    gradient = torch.tensor([[-3.0, 1.0], [3.0, 1.0], [-1.0, 1.0], [-2.0, 1.0]])
    found, opposed = project_one(reference, gradient)
    assert found.tolist() == [[0.0, 1.0], [3.0, 1.0], [-1.0, 1.0], [-1.5, 1.5]]
    assert opposed.tolist() == [True, False, False, True]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000))
def test_it_is_gems_projection_with_one_constraint_and_no_margin(seed: int) -> None:
    reference, gradient = pair(seed)
    found, opposed = project_one(reference, gradient)
    expected, violated = project(reference.unsqueeze(1), gradient, margin=0.0)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)
    assert torch.equal(opposed, violated)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000), st.sampled_from([torch.float32, torch.float64]))
def test_nothing_is_opposed_afterwards_and_the_others_keep_their_gradient(seed: int, dtype: torch.dtype) -> None:
    reference, gradient = (each.to(dtype) for each in pair(seed))
    found, opposed = project_one(reference, gradient)
    assert torch.equal(opposed, torch.tensor([bool(r @ g < 0) for r, g in zip(reference, gradient, strict=True)]))
    inner = (found.double() * reference.double()).sum(1) / (reference.norm(dim=1) * gradient.norm(dim=1))
    assert (inner >= -4 * torch.finfo(dtype).eps).all()
    assert torch.equal(found[~opposed], gradient[~opposed])


def test_a_reference_that_is_not_finite_harms_nobody_else() -> None:
    reference, gradient = pair(0)
    reference[2] = torch.inf
    clean, _ = project_one(*pair(0))
    found, _ = project_one(reference, gradient)
    assert torch.equal(found[[0, 1, 3, 4, 5]], clean[[0, 1, 3, 4, 5]])
