import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, cross_entropy

from gradcast.core import Unlabelled
from gradcast.randomness import numpy_generator
from gradcast.replicas.replicas import Replicas
from gradcast.signals.head import Head
from gradcast.signals.icl import Icl, halves, interpolated
from gradcast.signals.mixtures import Shares
from tests.helpers import flat
from tests.replicas.passes.reference import numbers
from tests.replicas.test_replicas import own_module
from tests.signals import plain_loop
from tests.signals.plain_loop import HEADS, LR, Shown, SignalLoss
from tests.signals.scene import scene

THRESHOLD, IMAGES, WEIGHT, CONTRAST, TEMPERATURE, BETA = 0.6, 6, 0.7, 0.4, 0.8, 0.75


def signal(model: Replicas, seeds: tuple[int, ...] = (0, 1)) -> Icl:
    head = Head([5, 4, 3], seeds, "interpolated", model.theta, lr=LR, normed=True)
    settings = {"weight": WEIGHT, "threshold": THRESHOLD, "contrast": CONTRAST, "temperature": TEMPERATURE}
    return Icl(head, Shares(BETA, seeds, "interpolated"), **settings)


def spelled(layers: list[Tensor], norm: Tensor, seed: int) -> SignalLoss:
    """The formula for one seed, image by image; the first layer has no bias, as BatchNorm would take it away."""
    generator = numpy_generator(seed, "interpolated")

    def project(features: Tensor) -> Tensor:
        inner = batch_norm(features @ layers[0][:, :-1].T, None, None, norm[0], norm[1], training=True)
        v = inner.relu() @ layers[1][:, :-1].T + layers[1][:, -1]
        return v / v.norm(dim=1, keepdim=True)

    def loss(network: nn.Module, shown: Shown, step: int) -> Tensor:
        assert shown.unlabelled is not None
        drawn = generator.beta(BETA, BETA)
        lam = max(drawn, 1 - drawn)
        n = len(shown.unlabelled) // 4
        u_w, u1_w, u_s, u1_s = shown.unlabelled.split(n)
        images = torch.cat([u_w, u_s, u1_w, u1_s, lam * u_w + (1 - lam) * u1_w, lam * u_s + (1 - lam) * u1_s])
        features, z = plain_loop.features_and_logits(network, images, shown.columns)
        v_w, v_s, v1_w, v1_s, mixed_w, mixed_s = project(features).split(n)
        fixmatch = contrast = torch.zeros((), dtype=torch.float64)
        for i in range(n):
            p = z[i].softmax(-1).detach()
            if p.max() >= THRESHOLD:
                fixmatch = fixmatch + cross_entropy(z[n + i], p.argmax())
        others = [*v_w, *v1_s]
        for i in range(2 * n):
            mixed, v, v1 = (mixed_w[i], v_w[i], v1_w[i]) if i < n else (mixed_s[i - n], v_s[i - n], v1_s[i - n])
            positive = torch.exp(mixed @ (lam * v + (1 - lam) * v1) / TEMPERATURE)
            negative = sum(torch.exp(others[i] @ others[j] / TEMPERATURE) for j in range(2 * n) if j != i)
            contrast = contrast - torch.log(positive / negative)
        return WEIGHT * fixmatch / n + CONTRAST * contrast / (2 * n)

    return loss


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("replica", [0, 1])
def test_three_tasks_train_as_in_a_plain_loop(kind: str, replica: int) -> None:
    heads = HEADS[kind]
    model = plain_loop.model(heads)
    own = signal(model)
    plain = own_module(model, replica).train()
    layers = [weight[replica].detach().clone().requires_grad_() for weight in own.head.weights]
    norm = own.head.norms[0][replica].detach().clone().requires_grad_()
    losses = plain_loop.together(own, model, IMAGES)
    expected = plain_loop.alone(plain, heads, IMAGES, replica, [*layers, norm], spelled(layers, norm, replica))
    torch.testing.assert_close(model.theta[replica], flat(plain).detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(losses[:, replica], expected, rtol=1e-9, atol=1e-9, equal_nan=True)
    for found, wanted in zip([*own.head.weights, *own.head.norms], [*layers, norm], strict=True):
        torch.testing.assert_close(found[replica], wanted, rtol=1e-9, atol=1e-9)


def test_replicas_train_together_as_they_do_alone() -> None:
    heads = HEADS["all classes"]
    both, single = plain_loop.model(heads), plain_loop.model(heads, 1, first_seed=1)
    first, second = signal(both), signal(single, (1,))
    plain_loop.together(first, both, IMAGES)
    plain_loop.together(second, single, IMAGES, only=1)
    torch.testing.assert_close(both.theta[1:], single.theta, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(first.head.weights[1][1:], second.head.weights[1], rtol=1e-12, atol=1e-12)


def test_without_contrast_and_where_the_model_is_sure_of_nothing_there_is_no_gradient() -> None:
    at = scene(views=2, norm="batch")
    own = signal(at.model)
    own.threshold, own.contrast = 1.0, 0.0
    assert not at.gradient(own).any()
    own.threshold = 0.0
    assert at.gradient(own).any(1).all()


def test_contrast_alone_leaves_the_output_layer_alone() -> None:
    at = scene(views=2, norm="batch")
    own = signal(at.model)
    own.threshold = 1.0
    found = at.gradient(own)
    assert not found[:, -36:].any()
    assert found[:, :-36].any(1).all()


def test_every_image_is_labelled_by_its_weak_view() -> None:
    at = scene(views=2, images=4)  # without BatchNorm an image is what it is beside any others
    own = signal(at.model)
    at.gradient(own)
    assert own.label is not None
    torch.testing.assert_close(own.label, at.model.forward(at.unlabelled.x[:, :4], 1).z.softmax(-1))


def test_halves_keep_views_together() -> None:
    x = torch.arange(8.0).view(1, 8, 1)  # weak views of four images, then strong ones
    first, second = halves(Unlabelled(x, torch.tensor([True]), 2))
    assert first.flatten().tolist() == [0, 1, 4, 5]
    assert second.flatten().tolist() == [2, 3, 6, 7]


def test_the_contrast_of_two_images_on_fixed_numbers() -> None:
    one, other, mixed = (numbers(1, 2, 3, seed=seed) for seed in range(3))
    found = interpolated(one, other, mixed, torch.full((1, 2), 0.75, dtype=torch.float64), 2.0)
    target = 0.75 * one + 0.25 * other
    unlike = float(one[0, 0] @ other[0, 1]) / 2
    expected = [unlike - float(mixed[0, i] @ target[0, i]) / 2 for i in range(2)]
    assert math.isclose(float(found), sum(expected) / 2, rel_tol=1e-12)


def test_the_larger_share_is_that_of_the_first_half() -> None:
    at = scene(views=2)
    own = signal(at.model)
    own.prepare(at.batch, at.unlabelled)
    drawn = own.shares.of(1)
    place = drawn.data_ptr()
    expected = [[numpy_generator(seed, "interpolated").beta(BETA, BETA)] for seed in (0, 1)]
    assert drawn.tolist() == expected
    own.prepare(at.batch, None)  # nothing is drawn for a step without unlabelled images
    assert own.shares.of(1).tolist() == expected
    own.prepare(at.batch, at.unlabelled)
    assert own.shares.of(1).data_ptr() == place
