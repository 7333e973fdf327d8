from functools import partial

import pytest
import torch
from torch import Tensor, nn

from gradcast.replicas.heads import ABSENT
from gradcast.replicas.replicas import Replicas
from gradcast.signals.co_training import CoTraining, CoTrainingSpec, jensen_shannon
from gradcast.streams.scale import Scale
from tests.helpers import flat
from tests.replicas.test_replicas import own_module
from tests.signals import plain_loop, plain_networks
from tests.signals.plain_loop import HEADS, Shown
from tests.signals.plain_networks import Told, risen

AGREEMENT, DIFFERENCE, EPSILON, RAMP, IMAGES = 3.0, 0.7, 0.3, 0.5, 5
SCALE = Scale(mean=(0.5,) * 6, std=(0.5, 0.25, 1.0, 2.0, 0.5, 0.1), vector=True)


def signal(model: Replicas) -> CoTraining:
    settings = {"agreement": AGREEMENT, "difference": DIFFERENCE, "epsilon": EPSILON, "ramp": RAMP}
    return CoTraining(plain_networks.peer(model.heads), plain_networks.progress(model), scale=SCALE, **settings)


def spelled(networks: list[nn.Module], shown: Shown, step: int) -> Told:
    """The formula for one seed, image by image."""
    assert shown.unlabelled is not None
    x = torch.cat([shown.x, shown.unlabelled[:IMAGES]])
    z1, z2 = (network(x)[:, shown.columns] for network in networks)
    examples = []
    for network, z in zip(networks, (z1, z2), strict=True):
        labels = torch.cat([shown.y, z[4:].argmax(-1)])
        images = x.clone().requires_grad_()
        loss = nn.functional.cross_entropy(network.eval()(images)[:, shown.columns], labels)
        (slope,) = torch.autograd.grad(loss, images)
        examples.append(x + EPSILON * slope.sign() / torch.tensor(SCALE.std, dtype=torch.float64))
        network.train()
    adversarial1 = networks[0](examples[1])[:, shown.columns]
    adversarial2 = networks[1](examples[0])[:, shown.columns]
    agreement = sum(js(z1[4 + i].softmax(-1), z2[4 + i].softmax(-1)) for i in range(IMAGES)) / IMAGES
    difference = torch.zeros((), dtype=torch.float64)
    for i in range(len(x)):
        difference = difference - (z1[i].softmax(-1) * adversarial2[i].log_softmax(-1)).sum()
        difference = difference - (z2[i].softmax(-1) * adversarial1[i].log_softmax(-1)).sum()
    loss = risen(step, RAMP) * (AGREEMENT * agreement + DIFFERENCE * difference / len(x))
    return loss, loss


def js(p: Tensor, q: Tensor) -> Tensor:
    def entropy(p: Tensor) -> Tensor:
        return -(p * p.log()).sum()

    return entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2


@pytest.mark.parametrize("kind", HEADS)
def test_both_networks_train_as_in_a_plain_loop(kind: str) -> None:
    model = plain_loop.model(HEADS[kind])
    own = signal(model)
    both = (model, own.peer.network)
    begun = [[own_module(network, replica).train() for network in both] for replica in (0, 1)]
    losses = plain_loop.together(own, model, IMAGES, sgd=plain_networks.sgd())
    for replica, networks in enumerate(begun):
        loss = partial(spelled, networks)
        expected = plain_networks.alone(networks, model.heads, IMAGES, replica, [], loss)
        for network, plain in zip(both, networks, strict=True):
            torch.testing.assert_close(network.theta[replica], flat(plain).detach(), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(losses[:, replica], expected, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_divergence_of_equal_answers_is_zero_and_of_opposite_ones_the_logarithm_of_two() -> None:
    one = torch.tensor([[[40.0, -40.0, ABSENT], [1.0, 2.0, ABSENT]]], dtype=torch.float64, requires_grad=True)
    other = torch.tensor([[[-40.0, 40.0, ABSENT], [1.0, 2.0, ABSENT]]], dtype=torch.float64)
    found = jensen_shannon(one, other)
    torch.testing.assert_close(found.detach(), torch.tensor([[2.0, 1.0]], dtype=torch.float64).log())
    (slope,) = torch.autograd.grad(found.sum(), one)
    assert torch.isfinite(slope).all()


def test_published_constants_are_defaults() -> None:
    own = CoTrainingSpec(name="co-training")
    assert (own.agreement, own.difference, own.epsilon, own.ramp) == (10, 0.5, 0.02, 80 / 600)
