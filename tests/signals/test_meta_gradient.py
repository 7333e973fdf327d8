from dataclasses import replace

import pytest
import torch
from gradcast.signals.excursion import on_simplex
from torch.func import functional_call
from torch.nn.functional import cosine_similarity, cross_entropy, kl_div

from gradcast.signals.meta_gradient import MetaGradient, squared_distance
from gradcast.signals.mixtures import Shares
from tests.replicas.passes.reference import numbers
from tests.replicas.test_replicas import own_module
from tests.signals.scene import scene


def test_labels_move_along_the_derivative_through_the_step() -> None:
    """Explicitly: the labelled loss after one step on the unlabelled loss, differentiated by the labels."""
    at, signal = scene(norm="batch"), MetaGradient()
    at.learn(signal)
    labels = signal._labels(at.model, at.unlabelled, 1)
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
    at.learn(signal)
    labels = signal._labels(at.model, at.unlabelled, 1)
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
    z, label = numbers(2, 5, 3).requires_grad_(), numbers(2, 5, 3, seed=1).softmax(-1)
    loss, dz = squared_distance(z.detach(), label)
    expected = (z.softmax(-1) - label).square().sum(-1).mean(-1)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(dz, torch.autograd.grad(expected.sum(), z)[0])
    at, signal = scene(), MetaGradient(weight=0.5)
    at.learn(signal)
    made = at.model.forward(at.unlabelled.x, 1)
    pulled = made.pull(0.5 * squared_distance(made.z, signal._labels(at.model, at.unlabelled, 1))[1])
    torch.testing.assert_close(at.gradient(signal), pulled.flat)


def test_labels_know_the_running_statistics_of_before_the_training_pass() -> None:
    at, signal = scene(norm="batch"), MetaGradient()
    at.learn(signal)
    labels = signal._labels(at.model, at.unlabelled, 1)
    expected = at.model.forward(at.unlabelled.x, 1, statistics="separate")
    found = at.gradient(signal, statistics="update")
    assert torch.equal(found, expected.pull(squared_distance(expected.z, labels)[1]).flat)
    assert not torch.equal(labels, signal._labels(at.model, at.unlabelled, 1))


def test_every_replica_may_have_its_own_learning_rate() -> None:
    at, signals = scene(), [MetaGradient() for _ in range(3)]
    rates = [0.1, 0.4, torch.tensor([0.1, 0.4], dtype=torch.float64)]
    labels = []
    for signal, lr in zip(signals, rates, strict=True):
        replace(at, lr=lr).learn(signal)  # type: ignore[arg-type]
        labels.append(signal._labels(at.model, at.unlabelled, 1))
    assert torch.equal(labels[2], torch.stack([labels[0][0], labels[1][1]]))
    assert not torch.equal(labels[0], labels[1])


@pytest.mark.parametrize("images", [3, 6])
def test_mixtures_with_the_first_labelled_images_add_their_divergence(images: int) -> None:
    """Four labelled images: three pairs, or four."""
    at, shares = scene(norm="batch", images=images), Shares(1.0, [3, 8])
    signal, plain = MetaGradient(weight=0.5, shares=shares), MetaGradient(weight=0.5)
    for own in (signal, plain):
        at.learn(own)
    labels = signal._labels(at.model, at.unlabelled, 1)
    added = at.gradient(signal) - at.gradient(plain)
    assert shares.values is not None
    pairs = min(images, 4)
    for replica in range(2):
        module, share = own_module(at.model, replica).train(), shares.values[replica, :pairs, None]
        x = share * at.batch.x[replica, :pairs] + (1 - share) * at.unlabelled.x[replica, :pairs]
        true = torch.eye(3, dtype=torch.float64)[at.batch.y[replica, :pairs]]
        target = share * true + (1 - share) * labels[replica, :pairs]
        loss = 0.5 * kl_div(module(x)[:, 3:].log_softmax(1), target, reduction="batchmean")
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        torch.testing.assert_close(added[replica], torch.cat([gradient.flatten() for gradient in gradients]))
