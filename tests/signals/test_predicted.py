import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

from gradcast.core import Batch, Labelled, Unlabelled
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.gradients.length import Tau
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Statistics
from gradcast.signals.predicted import Predicted, PredictedSpec, gradient_learner, parameters_of_h
from tests.helpers import batch, flat, replicas
from tests.replicas.test_replicas import own_module
from tests.signals import plain_loop
from tests.signals.plain_loop import HEADS, LR, feeds

ALL = torch.tensor([True, True])


def learned(signal: Predicted, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (2, 4), generator=generator)
    dz = (torch.softmax(z, -1) - torch.nn.functional.one_hot(y, 3)) / 4
    shown = Batch(torch.zeros(2, 4, 6, dtype=torch.float64), y, 0)
    return signal.learn(replicas(2), Labelled(shown, z, dz, 0.1, z))


def make(**options: object) -> Predicted:
    torch.manual_seed(0)
    learner = GradientLearner(3, (5,), alpha=0.5, loss_scale=10.0, replicas=(2,)).double()
    return Predicted(learner, **options)  # type: ignore[arg-type]


def test_gradient_on_a_linear_model_is_the_sum_of_outer_products() -> None:
    model = replicas(2, sizes=(6, 3))
    signal = make()
    learned(signal)
    x = batch(model, size=7).x
    found = signal.gradient(model, Unlabelled(x, ALL), 0)[0].flat
    prediction = signal.learner.predict(model.forward(x, 0).z)
    weights = torch.einsum("ruc,rui->rci", prediction, x).flatten(1)
    torch.testing.assert_close(found, torch.cat([weights, prediction.sum(1)], dim=1))


def test_metrics_of_the_learner() -> None:
    signal = make()
    first = learned(signal)
    assert set(first) == {"fitness", "gain", "cosine", "tau", "movement"}
    assert all(value.shape == (2,) for value in first.values())
    assert (first["movement"] > 0).all()


def test_a_frozen_learner_does_not_move() -> None:
    signal = make(directions="frozen")
    metrics = learned(signal)
    assert set(metrics) == {"tau"}
    assert not signal.movement().any()


def test_the_state_is_that_of_h() -> None:
    signal = make()
    assert list(signal.state()) == ["learner.weights.0", "learner.weights.1"]
    assert torch.equal(signal.state()["learner.weights.0"], signal.learner.weights[0])


@pytest.mark.parametrize(("statistics", "moves"), [("update", True), ("separate", False), ("frozen", False)])
def test_batchnorm_policy(statistics: Statistics, moves: bool) -> None:
    model = replicas(2, norm="batch")
    signal = make()
    learned(signal)
    before = model.buffers["layers.1.running_mean"].clone()
    signal.gradient(model, Unlabelled(batch(model).x, ALL), 0, statistics=statistics)
    assert torch.equal(before, model.buffers["layers.1.running_mean"]) != moves


ALPHA, LOSS_SCALE, IMAGES = 0.5, 50.0, 5


def spelled(network: nn.Module, weights: list[Tensor], replica: int, tau: Tau) -> None:
    """One seed in a plain loop with torch's own autograd; ``weights`` are those of h, and both are trained."""
    before = 0.0
    for shown, extra in feeds(HEADS["task known"], IMAGES):
        columns = plain_loop.visible(HEADS["task known"], shown.task)
        z, y = network(shown.x[replica])[:, columns], shown.y[replica]
        loss = cross_entropy(z, y)
        (dz,) = torch.autograd.grad(loss, z, retain_graph=True)
        length = float(dz.norm(dim=1).mean())
        z_seen = z.detach()
        g = relu(z_seen @ weights[0].T) @ weights[1].T
        moved = z_seen - LR * ALPHA * length * g / g.norm(dim=1, keepdim=True)
        slopes = torch.autograd.grad(LOSS_SCALE * cross_entropy(moved, y), weights)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight -= LR * slope
        surrogate = loss
        if extra is not None and bool(extra.used[replica]):
            z_u = network(extra.x[replica, :IMAGES])[:, columns]  # the first of two views
            with torch.no_grad():
                g = relu(z_u @ weights[0].T) @ weights[1].T
                gbar = ALPHA * (before if tau == "previous" else length) * g / g.norm(dim=1, keepdim=True)
            surrogate = loss + (z_u * gbar).sum()
        steps = torch.autograd.grad(surrogate, list(network.parameters()))
        with torch.no_grad():
            for parameter, step in zip(network.parameters(), steps, strict=True):
                parameter -= LR * step
        before = length


@pytest.mark.parametrize("tau", ["batch", "previous"])
def test_training_is_what_a_plain_loop_spells_out(tau: Tau) -> None:
    model = plain_loop.model(HEADS["task known"])
    torch.manual_seed(0)
    h = GradientLearner(3, (16,), alpha=ALPHA, loss_scale=LOSS_SCALE, tau=tau, replicas=(2,)).double()
    modules = [own_module(model, replica) for replica in range(2)]
    own = [[weight.detach()[replica].clone().requires_grad_() for weight in h.weights] for replica in range(2)]
    plain_loop.together(Predicted(h), model, IMAGES)
    for replica, (network, weights) in enumerate(zip(modules, own, strict=True)):
        spelled(network, weights, replica, tau)
        torch.testing.assert_close(model.theta[replica], flat(network), rtol=1e-9, atol=1e-9)
        for all_weights, weight in zip(h.weights, weights, strict=True):
            torch.testing.assert_close(all_weights[replica], weight, rtol=1e-9, atol=1e-9)


def test_the_two_lengths_train_to_other_weights() -> None:
    found = []
    for tau in ("batch", "previous"):
        torch.manual_seed(0)
        h = GradientLearner(3, (16,), alpha=ALPHA, loss_scale=LOSS_SCALE, tau=tau, replicas=(2,)).double()  # type: ignore[arg-type]
        model = plain_loop.model(HEADS["task known"])
        plain_loop.together(Predicted(h), model, IMAGES)
        found.append(model.theta)
    assert not torch.allclose(*found)


@pytest.mark.parametrize(
    ("hidden", "classes", "bias", "count"),
    [
        ([64, 16], 10, False, 1824),  # published for MNIST
        ([128, 32], 5, False, 4896),  # published for iCIFAR-100
        ([128, 32], 5, True, 5061),  # of ACL's released code, published as 1,427
        ([64, 16], 5, False, 1424),
        ([], 5, False, 25),
        ([7], 3, True, 3 * 7 + 7 + 7 * 3 + 3),
    ],
)
def test_parameters_of_h(hidden: list[int], classes: int, bias: bool, count: int) -> None:
    table = PredictedSpec(name="predicted", hidden=hidden, bias=bias)
    assert parameters_of_h(table, classes) == count
    made = gradient_learner(table, Heads.even(classes), [0, 1])
    assert sum(weight.numel() for weight in made.parameters()) == 2 * count


@pytest.mark.parametrize("objective", ["meta", "meta-exact"])
def test_the_length_of_the_batch_before_needs_every_labelled_batch(objective: str) -> None:
    with pytest.raises(ValidationError, match="needs every labelled batch"):
        PredictedSpec(name="predicted", tau="previous", objective=objective)  # type: ignore[arg-type]
    assert PredictedSpec(name="predicted", tau="previous", objective="cosine").tau == "previous"
