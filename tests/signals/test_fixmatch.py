import pytest
import torch
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.signals.fixmatch import FixMatch, FixMatchSpec, decide, match
from gradcast.specs import build
from gradcast.specs.text import load
from tests.helpers import flat
from tests.replicas.test_replicas import own_module
from tests.signals import plain_loop
from tests.signals.plain_loop import HEADS, Shown
from tests.signals.scene import scene

THRESHOLD, IMAGES = 0.42, 5


def spelled(network: nn.Module, shown: Shown, step: int) -> Tensor:
    """Image by image."""
    assert shown.unlabelled is not None
    weak, strong = network(shown.unlabelled)[:, shown.columns].chunk(2)
    total = torch.zeros((), dtype=torch.float64)
    for one, other in zip(weak.softmax(-1).detach(), strong.softmax(-1), strict=True):
        if max(one.tolist()) >= THRESHOLD:
            total = total - other[one.tolist().index(max(one.tolist()))].log()
    return 0.7 * total / len(weak)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("replica", [0, 1])
def test_three_tasks_train_as_in_a_plain_loop(kind: str, replica: int) -> None:
    heads = HEADS[kind]
    model, signal = plain_loop.model(heads), FixMatch(weight=0.7, threshold=THRESHOLD)
    plain = own_module(model, replica).train()
    losses = plain_loop.together(signal, model, IMAGES)
    expected = plain_loop.alone(plain, heads, IMAGES, replica, [], spelled)
    torch.testing.assert_close(model.theta[replica], flat(plain).detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(0.7 * losses[:, replica], expected, rtol=1e-9, atol=1e-9, equal_nan=True)
    assert expected[expected > 0].unique().numel() > 3


def test_replicas_train_together_as_they_do_alone() -> None:
    heads = HEADS["classes seen"]
    both, single = plain_loop.model(heads), plain_loop.model(heads, 1, first_seed=1)
    plain_loop.together(FixMatch(threshold=THRESHOLD), both, IMAGES)
    plain_loop.together(FixMatch(threshold=THRESHOLD), single, IMAGES, only=1)
    torch.testing.assert_close(both.theta[1:], single.theta, rtol=1e-12, atol=1e-12)


def test_the_loss_on_fixed_numbers() -> None:
    weak = torch.tensor([[[3.0, 0, 0], [0, 0, 0.1], [0, 4, 0]]], dtype=torch.float64)
    strong = torch.tensor([[[0.0, 0, 0], [5, 0, 0], [0, 1, 0]]], dtype=torch.float64, requires_grad=True)
    label, sure = decide(weak, 0.9)
    assert sure.tolist() == [[1, 0, 1]]
    loss = match(label, sure, strong)
    p = strong.detach().softmax(-1)[0]
    expected = -(p[0, 0].log() + p[2, 1].log()) / 3
    torch.testing.assert_close(loss[0], expected, rtol=1e-12, atol=1e-12)
    (slope,) = torch.autograd.grad(loss.sum(), strong)
    wanted = torch.stack([p[0] - torch.eye(3)[0], torch.zeros(3), p[2] - torch.eye(3)[1]]).double() / 3
    torch.testing.assert_close(slope[0], wanted, rtol=1e-12, atol=1e-12)


def test_where_the_model_is_sure_of_nothing_there_is_no_gradient() -> None:
    at = scene(views=2, norm="batch")
    signal = FixMatch(threshold=1.0)
    found, told = signal.gradient(at.model, at.unlabelled, 1)
    assert not found.flat.any()
    assert told["signal_loss"].tolist() == told["confident"].tolist() == [0, 0]
    everything, told = FixMatch(threshold=0.0).gradient(at.model, at.unlabelled, 1)
    assert everything.flat.any(1).all()
    assert told["confident"].tolist() == [1, 1]


def test_it_labels_images_by_their_weak_views() -> None:
    at = scene(views=2, images=4)
    signal = FixMatch()
    signal.gradient(at.model, at.unlabelled, 1)
    assert signal.label is not None
    assert not signal.label.requires_grad
    torch.testing.assert_close(signal.label, at.model.forward(at.unlabelled.x[:, :4], 1).z.softmax(-1))


def test_weak_and_strong_views_are_made_by_lists_of_their_own() -> None:
    found = build.views(FixMatchSpec(name="fixmatch", weak=["flip"], strong=["flip", "cutout"]))
    assert (found.count, [[step.name for step in steps] for steps in found.lists]) == (
        2,
        [["flip"], ["flip", "cutout"]],
    )


@pytest.mark.parametrize("threshold", ["1.5", "-0.1", "nan"])
def test_a_threshold_is_a_probability(threshold: str) -> None:
    with pytest.raises(GradcastError, match=rf"signal\.threshold = {threshold} is not valid") as caught:
        load("digits", ["signal.name=fixmatch", f"signal.threshold={threshold}"])
    assert "\n" not in str(caught.value)
