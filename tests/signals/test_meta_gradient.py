from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cosine_similarity, cross_entropy

from gradcast.core import Unlabelled
from gradcast.gradients.cross_entropy import squared_distance
from gradcast.gradients.excursion import explore, labelled_pass, on_simplex
from gradcast.randomness import numpy_generator
from gradcast.signals.meta_gradient import MetaGradient
from gradcast.signals.mixtures import Shares
from tests.replicas.test_replicas import own_module
from tests.signals.scene import Scene, scene


def looked(signal: MetaGradient, at: Scene) -> Tensor:
    """The labels of the unlabelled images."""
    signal.look(at.preview)
    assert signal.label is not None
    return signal.label


def test_labels_move_along_the_derivative_through_the_step() -> None:
    """Explicitly: the labelled loss after one step on the unlabelled loss, differentiated by the labels."""
    at, signal = scene(norm="batch"), MetaGradient()
    labels = looked(signal, at)
    for replica in range(2):
        module = own_module(at.model, replica).eval()
        x, y, pool = at.batch.x[replica], at.batch.y[replica], at.unlabelled.x[replica]
        weights = dict(module.named_parameters())
        start = module(pool)[:, 3:].softmax(1).detach().requires_grad_()
        distance = (module(pool)[:, 3:].softmax(1) - start).square().sum(1).mean()
        gradients = torch.autograd.grad(distance, list(weights.values()), create_graph=True)
        after = {name: w - 1e-4 * g for (name, w), g in zip(weights.items(), gradients, strict=True)}
        meta = cross_entropy(functional_call(module, after, (x,))[:, 3:], y)
        (slope,) = torch.autograd.grad(meta, start)
        moved = labels[replica] - start.detach()
        assert cosine_similarity(moved.flatten(), -slope.flatten(), dim=0) > 0.999


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own forward mode
def test_the_difference_quotient_is_twice_the_derivative_along_the_labelled_gradient() -> None:
    at, signal = scene(), MetaGradient()
    labels = looked(signal, at)
    for replica in range(2):
        module = own_module(at.model, replica)
        weights = dict(module.named_parameters())
        loss = cross_entropy(module(at.batch.x[replica])[:, 3:], at.batch.y[replica])
        d = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))

        def says(w: dict[str, torch.Tensor], module: torch.nn.Module = module, r: int = replica) -> torch.Tensor:
            return functional_call(module, w, (at.unlabelled.x[r],))[:, 3:].softmax(1)

        start, along = torch.func.jvp(says, (weights,), (d,))
        torch.testing.assert_close(labels[replica], on_simplex(start - 0.1 * 2 * along).detach(), rtol=1e-3, atol=1e-6)


def test_the_excursion_leaves_the_weights_alone() -> None:
    at, signal = scene(norm="batch"), MetaGradient()
    before, statistics = at.model.theta.clone(), at.model.buffers["layers.1.running_mean"].clone()
    at.learn(signal)
    at.gradient(signal)
    assert torch.equal(at.model.theta, before)
    assert torch.equal(at.model.buffers["layers.1.running_mean"], statistics)


def test_the_gradient_is_that_of_the_squared_distance() -> None:
    at, signal = scene(), MetaGradient(weight=0.5)
    labels = looked(signal, at)
    made = at.model.forward(at.unlabelled.x, 1)
    pulled = made.pull(0.5 * squared_distance(made.z, labels)[1])
    torch.testing.assert_close(at.gradient(signal), pulled.flat)


def test_labels_know_the_running_statistics_of_before_the_training_pass() -> None:
    at, signal = scene(norm="batch"), MetaGradient()
    labels = looked(signal, at)
    expected = at.model.forward(at.unlabelled.x, 1, statistics="separate")
    found = at.gradient(signal, statistics="update")
    assert torch.equal(found, expected.pull(squared_distance(expected.z, labels)[1]).flat)
    assert not torch.equal(labels, looked(signal, at))


def test_every_replica_may_have_its_own_learning_rate() -> None:
    at, signals = scene(), [MetaGradient() for _ in range(3)]
    rates = [0.1, 0.4, torch.tensor([0.1, 0.4], dtype=torch.float64)]
    labels = []
    for signal, lr in zip(signals, rates, strict=True):
        labels.append(looked(signal, replace(at, lr=lr)))  # type: ignore[arg-type]
    assert torch.equal(labels[2], torch.stack([labels[0][0], labels[1][1]]))
    assert not torch.equal(labels[0], labels[1])


def test_labels_are_the_excursions_and_it_is_said_how_far_they_moved() -> None:
    at, signal = scene(norm="batch"), MetaGradient()
    told = signal.look(at.preview)
    made, dz = labelled_pass(at.model, at.batch.x, at.batch.y, 1)
    seen = explore(at.model, at.unlabelled.x, made.pull(dz).flat, 1)
    assert signal.label is not None
    assert torch.equal(signal.label, seen.labels(0.1))
    away = (signal.label - seen.here.softmax(-1)).abs().sum(-1).mean(-1) / 2  # total variation
    torch.testing.assert_close(told["label_movement"], away)
    assert (away > 0).all()


@pytest.mark.parametrize("images", [3, 4, 6])
def test_mixtures_take_the_place_of_labelled_images_pair_by_pair(images: int) -> None:
    """Four labelled images: three pairs and one alone, or four pairs; the seed draws each pair's proportion."""
    at = scene(images=images)
    signal = MetaGradient(shares=Shares(0.1, [3, 8]))
    signal.prepare(at.batch, at.unlabelled)
    labels, pairs = looked(signal, at), min(images, 4)
    drawn = np.stack([numpy_generator(seed, "mix-up").beta(0.1, 0.1, pairs) for seed in (3, 8)])
    mixed = signal.mix_up(at.preview)
    assert mixed is not None
    assert mixed.x.shape == at.batch.x.shape
    for replica in range(2):
        for image in range(4):
            share = drawn[replica, image] if image < pairs else 1.0
            other = image if image < pairs else 0
            x = share * at.batch.x[replica, image] + (1 - share) * at.unlabelled.x[replica, other]
            torch.testing.assert_close(mixed.x[replica, image], x)
            expected = (1 - share) * labels[replica, other]
            expected[at.batch.y[replica, image]] += share
            torch.testing.assert_close(mixed.label[replica, image], expected)


def test_replicas_without_unlabelled_images_keep_their_labelled_ones() -> None:
    at = scene(images=4)
    at = replace(at, unlabelled=Unlabelled(at.unlabelled.x, torch.tensor([False, True]), drawing=(1,)))
    signal = MetaGradient(shares=Shares(1.0, [3, 8]))
    signal.prepare(at.batch, at.unlabelled)
    looked(signal, at)
    mixed = signal.mix_up(at.preview)
    assert mixed is not None
    assert torch.equal(mixed.x[0], at.batch.x[0])
    assert torch.equal(mixed.label[0], torch.eye(3, dtype=torch.float64)[at.batch.y[0]])
    assert not torch.equal(mixed.x[1], at.batch.x[1])
    assert MetaGradient().mix_up(at.preview) is None
