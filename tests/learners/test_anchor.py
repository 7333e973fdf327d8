import torch

from gradcast.learners.anchor import Anchor
from tests.helpers import replicas


def test_the_slope_is_that_of_the_penalty() -> None:
    model, anchor = replicas(2), Anchor(0.7)
    assert anchor.terms(model) is None
    assert anchor.penalty(model) is None
    generator = torch.Generator().manual_seed(0)
    importance = torch.rand(model.theta.shape, generator=generator, dtype=torch.float64)
    anchor.drop(model, importance)
    then = model.theta.clone()
    model.theta += torch.randn(then.shape, generator=generator, dtype=torch.float64)
    moved = model.theta.clone().requires_grad_()
    value = 0.7 * (importance * (moved - then) ** 2).sum(1)
    (slope,) = torch.autograd.grad(value.sum(), moved)
    terms = anchor.terms(model)
    assert terms is not None
    assert terms.gradient is not None
    torch.testing.assert_close(terms.gradient.flat, slope)
    torch.testing.assert_close(terms.metrics["penalty"], value.detach())


def test_what_is_held_keeps_its_place_in_memory() -> None:
    model, anchor = replicas(2), Anchor(1.0)
    anchor.drop(model, torch.ones_like(model.theta))
    held = anchor.importance, anchor.weights
    model.theta += 1
    anchor.drop(model, 2 * torch.ones_like(model.theta))
    assert (anchor.importance is held[0], anchor.weights is held[1]) == (True, True)
    assert anchor.weights is not None
    assert torch.equal(anchor.weights, model.theta)
