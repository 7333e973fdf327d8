import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from gradcast.core import Unlabelled
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.adversarial import LocalDivergence, by_largest, by_length, inner
from gradcast.signals.vat import Vat
from tests.replicas.passes.reference import numbers
from tests.signals.scene import scene


def test_the_slope_is_that_of_finite_differences() -> None:
    at = scene(images=2)
    near, _ = LocalDivergence.around(at.model, at.unlabelled, 1, "frozen")
    r = 0.3 * torch.randn(at.unlabelled.x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    found, h = near.slope(r), 1e-5
    for place in range(6):
        step = torch.zeros_like(r)
        step[:, 1, place] = h
        change = (near.gradient(r + step, 1.0)[0] - near.gradient(r - step, 1.0)[0]) / (2 * h)
        torch.testing.assert_close(found[:, 1, place], change, rtol=1e-6, atol=1e-9)


def test_single_precision_finds_the_direction_by_the_default_and_not_by_a_millionth() -> None:
    """Images of 3,072 numbers around a half: a change of length 1e-6 is below the resolution of each."""

    def direction(dtype: torch.dtype, xi: float) -> Tensor:
        torch.manual_seed(0)
        made = nn.Sequential(nn.Linear(3072, 64), nn.ReLU(), nn.Linear(64, 10))
        model = Replicas([made], Heads.even(10), device=torch.device("cpu"), dtype=dtype)
        x = torch.rand(1, 4, 3072, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
        near, _ = LocalDivergence.around(model, Unlabelled(x, torch.tensor([True])), 0, "separate")
        d = torch.randn(x.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(dtype)
        return near.curvature(d / d.norm(dim=-1, keepdim=True), xi).double()

    def agreement(xi: float) -> Tensor:
        return cosine_similarity(direction(torch.float32, xi), direction(torch.float64, xi), dim=-1)

    assert (agreement(Vat().xi) > 0.9999).all()
    assert (agreement(1e-6) < 0.9).any()


def test_every_image_is_divided_by_a_number_of_its_own() -> None:
    r = numbers(2, 3, 2, 4) * torch.tensor([1e-6, 1.0, 1e20], dtype=torch.float64).view(1, 3, 1, 1)
    for replica in range(2):
        for image in range(3):
            own = r[replica, image]
            torch.testing.assert_close(by_largest(r)[replica, image], own / own.abs().max(), rtol=1e-5, atol=1e-8)
            torch.testing.assert_close(by_length(r)[replica, image], own / own.norm(), rtol=1e-5, atol=1e-8)
    assert not by_length(0 * r).any()  # no direction, and no division by zero
    torch.testing.assert_close(inner(r, r).flatten(), r.flatten(2).square().sum(-1).flatten())


def test_the_divergence_is_zero_where_nothing_is_changed_and_positive_elsewhere() -> None:
    at = scene(norm="batch")
    near, _ = LocalDivergence.around(at.model, at.unlabelled, 1, "update")
    nothing = torch.zeros_like(at.unlabelled.x)
    loss, gradient = near.gradient(nothing, 1.0)
    torch.testing.assert_close(loss, torch.zeros_like(loss), atol=1e-12, rtol=0)
    assert gradient.flat.abs().max() < 1e-12
    assert near.slope(nothing).abs().max() < 1e-12
    assert (near.gradient(at.unlabelled.x.flip(1), 1.0)[0] > 1e-3).all()
