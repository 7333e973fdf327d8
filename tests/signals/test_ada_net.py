import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradcast.core import Batch, Unlabelled
from gradcast.learners.finetune import Finetune
from gradcast.randomness import numpy_generator
from gradcast.replicas.replicas import Replicas
from gradcast.signals.ada_net import AdaNet, AdaNetSpec, reversal, reverse
from gradcast.signals.head import Head
from gradcast.signals.mixtures import Shares
from gradcast.signals.pseudo import Attached
from gradcast.training.step import Step
from tests.helpers import flat
from tests.replicas.test_replicas import own_module
from tests.signals import plain_loop, plain_networks
from tests.signals.plain_loop import HEADS, LR, Shown
from tests.signals.plain_networks import LENGTH, Told

BETA, WEIGHT, ALIGNMENT = 0.7, 0.6, 1.5


class Reversed(torch.autograd.Function):
    """Gradient reversal as it is usually written."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: float) -> Tensor:
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return -ctx.weight * slopes[0], None


def signal(model: Replicas) -> AdaNet:
    head = Head([5, 4, 3, 2], [0, 1], "domain", model.theta, lr=LR, optimizer=plain_networks.sgd())
    shares = Shares(BETA, [0, 1], "domain")
    return AdaNet(head, shares, plain_networks.progress(model), weight=WEIGHT, alignment=ALIGNMENT)


class Spelled:
    """The loss of one seed, pair by pair; labels are given before the labelled images pass."""

    def __init__(self, network: nn.Module, layers: list[Tensor], seed: int, images: int) -> None:
        self.network, self.layers, self.generator = network, layers, numpy_generator(seed, "domain")
        self.pairs = min(4, images)
        self.soft = torch.zeros(0)

    def before(self, shown: Shown) -> None:
        assert shown.unlabelled is not None
        with torch.no_grad():
            self.soft = self.network.eval()(shown.unlabelled[: self.pairs])[:, shown.columns].softmax(-1)
        self.network.train()

    def __call__(self, shown: Shown, step: int) -> Told:
        assert shown.unlabelled is not None
        lam = torch.from_numpy(self.generator.beta(BETA, BETA, self.pairs))
        k = (step % LENGTH) / LENGTH
        strength = ALIGNMENT * (2 / (1 + math.exp(-10 * k)) - 1)
        mixed = torch.stack([lam[i] * shown.x[i] + (1 - lam[i]) * shown.unlabelled[i] for i in range(self.pairs)])
        features, z = plain_loop.features_and_logits(self.network, mixed, shown.columns)
        h: Tensor = Reversed.apply(features, strength)  # type: ignore[no-untyped-call]
        for number, layer in enumerate(self.layers):
            h = (h.relu() if number else h) @ layer[:, :-1].T + layer[:, -1]
        classes = domain = torch.zeros((), dtype=torch.float64)
        for i in range(self.pairs):
            label = (1 - lam[i]) * self.soft[i]
            label[shown.y[i]] += lam[i]
            classes = classes - lam[i] * (label * z[i].log_softmax(-1)).sum()
            domain = domain - (torch.stack([lam[i], 1 - lam[i]]) * h[i].log_softmax(-1)).sum()
        loss = (WEIGHT * classes + domain) / self.pairs
        return loss, loss


@pytest.mark.parametrize(("kind", "images"), [*((kind, 5) for kind in HEADS), ("task known", 3)])
def test_network_and_domain_network_train_as_in_a_plain_loop(kind: str, images: int) -> None:
    model = plain_loop.model(HEADS[kind])
    own = signal(model)
    begun = [own_module(model, replica).train() for replica in (0, 1)]
    domain = [[rows[replica].detach().clone().requires_grad_() for rows in own.head.weights] for replica in (0, 1)]
    losses = plain_loop.together(own, model, images, sgd=plain_networks.sgd())
    for replica, (plain, layers) in enumerate(zip(begun, domain, strict=True)):
        spelled = Spelled(plain, layers, replica, images)
        expected = plain_networks.alone([plain], model.heads, images, replica, layers, spelled, spelled.before)
        torch.testing.assert_close(model.theta[replica], flat(plain).detach(), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(losses[:, replica], expected, rtol=1e-9, atol=1e-9, equal_nan=True)
        for found, wanted in zip(own.head.weights, layers, strict=True):
            torch.testing.assert_close(found[replica], wanted, rtol=1e-9, atol=1e-9)


def test_reversal_is_that_of_a_function_with_its_own_backward() -> None:
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = []
    for turned in (reverse, Reversed.apply):
        own = x.clone().requires_grad_()
        y = turned(own, 0.3)
        assert torch.equal(y, x)
        found.append(torch.autograd.grad((y**3).sum(), own)[0])
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_reversal_rises_from_nothing() -> None:
    found = torch.stack([reversal(k) for k in torch.tensor([0.0, 0.1, 1.0], dtype=torch.float64)])
    expected = [0.0, 2 / (1 + math.exp(-1)) - 1, 2 / (1 + math.exp(-10)) - 1]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


def test_images_of_an_earlier_task_are_mixed_among_its_classes() -> None:
    """A step in task 2 with a batch of task 0 has the gradient of the same step in task 0."""
    found = []
    for task in (0, 2):
        model = plain_loop.model(HEADS["task known"])
        step = Step(model, Finetune(), LR, [Attached(signal(model))])
        x = torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        batch = Batch(x[:, :4], torch.tensor([[0, 1, 2, 0]] * 2), task, tasks=torch.zeros(2, 4, dtype=torch.long))
        step(batch, (Unlabelled(x[:, 4:], torch.tensor([True, True])),))
        found.append(model.theta)
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_published_constants_are_defaults() -> None:
    own = AdaNetSpec(name="ada-net")
    assert (own.weight, own.alignment, own.beta, own.head) == (1, 1, 1, [1024, 1024])
