"""The excursion against brute force: labels and logit gradients are perturbed one by one, and the step is taken."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cosine_similarity, cross_entropy

from gradcast.gradients.excursion import LENGTH, Excursion, explore, labelled_pass, on_simplex
from gradcast.replicas.replicas import Replicas
from tests.replicas.test_replicas import own_module
from tests.signals.scene import Scene, scene

ETA = 1e-6  # of the step that is differentiated: the formula is its first order
FINE = 1e-4  # length of an excursion whose own error does not show


def excursion(at: Scene, length: float = FINE) -> Excursion:
    made, dz = labelled_pass(at.model, at.batch.x, at.batch.y, at.batch.task)
    return explore(at.model, at.unlabelled.x, made.pull(dz).flat, at.batch.task, length=length)


def after_a_step(module: nn.Module, at: Scene, replica: int, gradient: Callable[[Tensor], Tensor]) -> Tensor:
    """The labelled loss after a step along what ``gradient`` makes of the unlabelled logits, differentiable."""
    weights = dict(module.named_parameters())
    end = gradient(module(at.unlabelled.x[replica])[:, 3:])
    found = torch.autograd.grad(end, list(weights.values()), create_graph=True)
    after = {name: w - ETA * g for (name, w), g in zip(weights.items(), found, strict=True)}
    return cross_entropy(functional_call(module, after, (at.batch.x[replica],))[:, 3:], at.batch.y[replica])


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_labels_take_the_step_that_differentiation_through_the_models_step_says(norm: str) -> None:
    at = scene(norm=norm)
    found, images = excursion(at), at.unlabelled.images
    labels = found.labels(0.1)
    for replica in range(2):
        module = own_module(at.model, replica).eval()
        start = found.here[replica].softmax(-1).requires_grad_()
        meta = after_a_step(
            module,
            at,
            replica,
            lambda z, y=start: (z.softmax(-1) - y).square().sum(-1).mean(),  # type: ignore[misc]
        )
        (slope,) = torch.autograd.grad(meta, start)
        expected = on_simplex(start - 0.1 * slope * images / ETA)
        torch.testing.assert_close(labels[replica], expected.detach(), rtol=1e-5, atol=1e-7)
        assert (labels[replica] - start).abs().max() > 1e-3  # they did move


def test_the_same_by_finite_differences_of_single_labels() -> None:
    at, replica = scene(), 1
    found, module, nudge = excursion(at), own_module(at.model, 1).eval(), 1e-2
    label = found.here[replica].softmax(-1)
    twice = (found.ahead.softmax(-1) - found.behind.softmax(-1))[replica] / found.size[replica]
    for image, column in [(0, 0), (3, 2), (5, 1)]:
        ends = []
        for sign in (1, -1):
            moved = label.clone()
            moved[image, column] += sign * nudge
            squared = lambda z, y=moved: (z.softmax(-1) - y).square().sum(-1).mean()  # noqa: E731
            ends.append(float(after_a_step(module, at, replica, squared).detach()))
        slope = (ends[0] - ends[1]) / (2 * nudge) / ETA * at.unlabelled.images
        assert slope == pytest.approx(float(twice[image, column]), rel=1e-5, abs=1e-8)


def test_the_derivative_of_the_logits_is_that_of_the_labelled_loss_by_a_gradient_at_them() -> None:
    """Brute force: every entry of a logit gradient is nudged, the model steps along it, the labelled loss answers."""
    at, replica, nudge = scene(norm="batch"), 0, 1.0
    found, module = excursion(at).derivative()[replica], own_module(at.model, 0).eval()
    gbar = torch.zeros_like(found)
    for image in range(gbar.shape[0]):
        for column in range(gbar.shape[1]):
            ends = []
            for sign in (1, -1):
                gbar[image, column] = sign * nudge
                ends.append(float(after_a_step(module, at, replica, lambda z, g=gbar: (z * g).sum()).detach()))  # type: ignore[misc]
                gbar[image, column] = 0
            slope = (ends[0] - ends[1]) / (2 * nudge)
            assert slope == pytest.approx(-ETA * float(found[image, column]), rel=1e-5, abs=1e-12)


def test_the_published_length_is_short_enough() -> None:
    at = scene(norm="batch")
    torch.testing.assert_close(excursion(at, 0.01).labels(0.1), excursion(at).labels(0.1), rtol=1e-3, atol=1e-6)


def test_it_goes_as_far_as_it_says_and_the_weights_stay_bit_for_bit() -> None:
    at = scene(norm="batch")
    before, statistics = at.model.theta.clone(), at.model.buffers["layers.1.running_mean"].clone()
    made, dz = labelled_pass(at.model, at.batch.x, at.batch.y, at.batch.task)
    direction = made.pull(dz).flat
    found = explore(at.model, at.unlabelled.x, direction, 1)
    torch.testing.assert_close(found.size * direction.norm(dim=1), torch.full((2,), 0.01, dtype=torch.float64))
    assert torch.equal(at.model.theta, before)
    assert torch.equal(at.model.buffers["layers.1.running_mean"], statistics)
    there = before + found.size.unsqueeze(1) * direction
    expected = at.model.forward(at.unlabelled.x, 1, statistics="frozen", theta=there).z
    torch.testing.assert_close(found.ahead, expected)


def test_no_gradient_no_excursion() -> None:
    at = scene()
    found = explore(at.model, at.unlabelled.x, torch.zeros_like(at.model.theta), 1)
    torch.testing.assert_close(found.labels(0.1), found.here.softmax(-1))


@pytest.mark.parametrize(
    ("row", "expected"),
    [([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]), ([-1.0, 1.0, 3.0], [0.0, 0.25, 0.75]), ([-1.0, 0.0, -2.0], [0.0, 0.0, 0.0])],
)
def test_labels_are_probabilities(row: list[float], expected: list[float]) -> None:
    assert on_simplex(torch.tensor([row])).tolist()[0] == pytest.approx(expected)


def test_a_coarse_direction_does_and_coarse_passes_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a model in bfloat16, differences over an excursion are those of the weights' own arithmetic."""

    def moved(at: Scene) -> Tensor:
        found = excursion(at, LENGTH)
        return (found.ahead - found.behind).flatten(1)

    fine, coarse = scene(norm="batch"), scene(norm="batch")
    coarse.model.inner = torch.bfloat16
    expected = moved(fine)
    assert cosine_similarity(moved(coarse), expected).min() > 0.999
    whole = Replicas.forward
    monkeypatch.setattr(Replicas, "forward", lambda *args, **how: whole(*args, **{**how, "exact": False}))
    assert cosine_similarity(moved(coarse), expected).max() < 0.99
