import pytest
import torch

from gradcast.core import Batch, Labelled, Unlabelled
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.replicas.replicas import Statistics
from gradcast.signals.predicted import Predicted
from tests.helpers import batch, replicas

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
