import copy

import pytest
import torch
from torch import Tensor, nn

from gradcast.randomness import derive
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.adversarial import LocalDivergence
from gradcast.signals.vat import Vat
from tests.helpers import flat
from tests.replicas.test_replicas import own_module
from tests.signals import plain_loop
from tests.signals.plain_loop import HEADS, Shown, SignalLoss
from tests.signals.scene import Scene, scene

IMAGES, WEIGHT, EPSILON, XI, ENTROPY, KNOWN = 5, 0.7, 1.5, 0.05, 0.3, "task known"


def signal(model: Replicas, iterations: int = 2, entropy: float = ENTROPY) -> Vat:
    model.chance.unlabelled.drawn = True
    return Vat(weight=WEIGHT, epsilon=EPSILON, xi=XI, iterations=iterations, entropy=entropy)


def silently(network: nn.Module, x: Tensor) -> Tensor:
    """What a network says in training mode, without a trace in its running statistics."""
    before = copy.deepcopy(dict(network.named_buffers()))
    z: Tensor = network(x)
    for name, buffer in network.named_buffers():
        buffer.data.copy_(before[name])
    return z


def kl(p: Tensor, z: Tensor) -> Tensor:
    """KL(p || softmax(z)), mean over images."""
    return (p * (p.log() - z.softmax(-1).log())).sum(-1).mean()


def unit(d: Tensor) -> Tensor:
    """Every image divided by its largest number and then by its length, as in vat_tf."""
    d = d / (1e-12 + d.abs().amax(1, keepdim=True))
    return d / (1e-6 + d.square().sum(1, keepdim=True)).sqrt()


def drawn(seed: int, step: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    """What a seed draws for its unlabelled images in a step, one after another."""
    generator = torch.Generator().manual_seed(derive(seed, "dropout", "unlabelled", step))
    return [torch.empty(shape, dtype=torch.float64).normal_(generator=generator) for shape in shapes]


def spelled(seed: int, iterations: int, entropy: float) -> SignalLoss:
    """The formula for one seed."""

    def loss(network: nn.Module, shown: Shown, step: int) -> Tensor:
        assert shown.unlabelled is not None
        x = shown.unlabelled[:IMAGES]  # the first of two views
        z = network(x)[:, shown.columns]
        p = z.softmax(-1).detach()
        d = unit(drawn(seed, step, tuple(x.shape))[0])
        for _ in range(iterations):
            r = (XI * d).requires_grad_()
            (slope,) = torch.autograd.grad(kl(p, silently(network, x + r)[:, shown.columns]), r)
            d = unit(slope / XI)
        adversarial = kl(p, silently(network, x + EPSILON * d)[:, shown.columns])
        uncertain = -(z.softmax(-1) * z.softmax(-1).log()).sum(-1).mean()
        return WEIGHT * adversarial + entropy * uncertain

    return loss


@pytest.mark.parametrize(("kind", "iterations", "entropy"), [(kind, 2, ENTROPY) for kind in HEADS] + [(KNOWN, 1, 0.0)])
def test_three_tasks_train_as_in_a_plain_loop(kind: str, iterations: int, entropy: float) -> None:
    heads = HEADS[kind]
    model = plain_loop.model(heads)
    alone = [own_module(model, replica).train() for replica in range(2)]
    losses = plain_loop.together(signal(model, iterations, entropy), model, IMAGES)
    for replica, plain in enumerate(alone):
        expected = plain_loop.alone(plain, heads, IMAGES, replica, [], spelled(replica, iterations, entropy))
        torch.testing.assert_close(model.theta[replica], flat(plain).detach(), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(losses[:, replica], expected, rtol=1e-9, atol=1e-9, equal_nan=True)
        for name, buffer in plain.named_buffers():  # neither search nor adversarial images move them
            torch.testing.assert_close(model.buffers[name][replica], buffer, rtol=1e-9, atol=1e-9)


def test_replicas_train_together_as_they_do_alone() -> None:
    heads = HEADS["uneven tasks"]
    both, single = plain_loop.model(heads), plain_loop.model(heads, 1, first_seed=1)
    single.chance.seeds[:] = [1]
    plain_loop.together(signal(both), both, IMAGES)
    plain_loop.together(signal(single), single, IMAGES, only=1)
    torch.testing.assert_close(both.theta[1:], single.theta, rtol=1e-12, atol=1e-12)


def around(at: Scene) -> LocalDivergence:
    return LocalDivergence.around(at.model, at.unlabelled, 1, "frozen")[0]


def hessian(at: Scene, replica: int, image: int) -> Tensor:
    """Of one image's divergence at zero, by second differences of its values."""
    network = own_module(at.model, replica).eval()
    x, h = at.unlabelled.x[replica, image], 1e-3

    @torch.no_grad()
    def value(r: Tensor) -> Tensor:
        return kl(network(x[None])[:, 3:].softmax(-1), network((x + r)[None])[:, 3:])

    steps = h * torch.eye(len(x), dtype=x.dtype)
    rows = [
        [value(a + b) - value(a - b) - value(b - a) + value(-a - b) for b in steps] for a in steps
    ]  # 4 h^2 times the second derivative
    return torch.tensor(rows, dtype=x.dtype) / (4 * h * h)


def test_the_power_method_finds_the_direction_in_which_the_divergence_grows_fastest() -> None:
    at = scene(norm="batch", images=3)
    near, images = around(at), at.unlabelled.images
    found = Vat(xi=1e-4, iterations=60)._direction(near)
    once = near.curvature(found, 1e-4) * images  # each image's own divergence, not their mean
    for replica in range(2):
        for image in range(images):
            own = hessian(at, replica, image)
            values, vectors = torch.linalg.eigh(own)
            assert values[-1] > 1.05 * values[-2]  # otherwise there is no one direction
            assert abs(float(found[replica, image] @ vectors[:, -1])) > 0.999
            torch.testing.assert_close(once[replica, image], own @ found[replica, image], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("statistics", ["update", "separate", "frozen"])
def test_running_statistics_follow_the_images_themselves_where_they_follow_any(statistics: Statistics) -> None:
    at, other = scene(norm="batch"), scene(norm="batch")
    at.gradient(signal(at.model), statistics=statistics)
    other.model.forward(other.unlabelled.x, 1, statistics=statistics, used=other.unlabelled.used)
    for name, buffer in at.model.buffers.items():
        torch.testing.assert_close(buffer, other.model.buffers[name])


def test_images_are_labelled_as_the_model_sees_them() -> None:
    at = scene()
    own = signal(at.model)
    at.gradient(own)
    assert own.label is not None
    torch.testing.assert_close(own.label, at.model.forward(at.unlabelled.x, 1).z.softmax(-1))
