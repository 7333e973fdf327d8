import pytest
import torch

from gradcast.core import Labelled, Unlabelled
from gradcast.gradients.learner import GradientLearner
from gradcast.randomness import torch_generator
from gradcast.replicas import Statistics
from gradcast.signals.predicted import Predicted
from tests.helpers import batch, replicas

ALL = torch.tensor([True, True])


def learned(signal: Predicted, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    y = torch.randint(3, (2, 4), generator=generator)
    dz = (torch.softmax(z, -1) - torch.nn.functional.one_hot(y, 3)) / 4
    return signal.learn(Labelled(z, dz, y, lr=0.1))


def make(**options: object) -> Predicted:
    torch.manual_seed(0)
    learner = GradientLearner(3, (5,), alpha=0.5, loss_scale=10.0, replicas=(2,)).double()
    return Predicted(learner, **options)  # type: ignore[arg-type]


def test_gradient_on_a_linear_model_is_the_sum_of_outer_products() -> None:
    model = replicas(2, sizes=(6, 3))
    signal = make()
    learned(signal)
    x = batch(model, size=7).x
    found = signal.gradient(model, Unlabelled(x, ALL), 0).flat
    prediction = signal.learner.predict(model.forward(x, 0).z)
    weights = torch.einsum("ruc,rui->rci", prediction, x).flatten(1)
    torch.testing.assert_close(found, torch.cat([weights, prediction.sum(1)], dim=1))


def test_metrics_of_the_learner() -> None:
    signal = make()
    first = learned(signal)
    assert set(first) == {"fitness", "gain", "cosine", "tau", "movement"}
    assert all(value.shape == (2,) for value in first.values())
    before = signal.initial
    expected = [
        sum(
            float((now[r] - then[r]).detach().square().sum())
            for now, then in zip(signal.learner.parameters(), before, strict=True)
        )
        / sum(float(then[r].square().sum()) for then in before)
        for r in range(2)
    ]
    torch.testing.assert_close(first["movement"], torch.tensor(expected, dtype=torch.float64).sqrt())
    assert (first["movement"] > 0).all()


@pytest.mark.parametrize("directions", ["frozen", "random"])
def test_controls_do_not_move_the_learner(directions: str) -> None:
    signal = make(directions=directions, generators=[torch_generator(r, "directions") for r in range(2)])
    metrics = learned(signal)
    assert set(metrics) == {"tau"}
    assert all(torch.equal(now, then) for now, then in zip(signal.learner.parameters(), signal.initial, strict=True))


def test_random_directions_have_the_length_of_predictions_and_change_each_time() -> None:
    model = replicas(2, sizes=(6, 3))
    signal = make(directions="random", generators=[torch_generator(r, "directions") for r in range(2)])
    learned(signal)
    x = (
        torch.eye(6, dtype=torch.float64)[:4].expand(2, 4, 6).contiguous()
    )  # the gradient of column i is image i's direction
    found = []
    for _ in range(2):
        signal.prepare(Unlabelled(x, ALL))
        found.append(signal.gradient(model, Unlabelled(x, ALL), 0).flat[:, :18].view(2, 3, 6))
    first, second = found
    assert signal.learner.tau is not None
    lengths = (0.5 * signal.learner.tau).expand(2, 4)
    torch.testing.assert_close(first[:, :, :4].norm(dim=1), lengths)
    assert not torch.allclose(first, second)


def test_random_directions_need_generators() -> None:
    with pytest.raises(ValueError, match="generator"):
        make(directions="random")


@pytest.mark.parametrize(("statistics", "moves"), [("update", True), ("separate", False), ("frozen", False)])
def test_batchnorm_policy(statistics: Statistics, moves: bool) -> None:
    model = replicas(2, norm="batch")
    signal = make()
    learned(signal)
    before = model.buffers["layers.1.running_mean"].clone()
    signal.gradient(model, Unlabelled(batch(model).x, ALL), 0, statistics=statistics)
    assert torch.equal(before, model.buffers["layers.1.running_mean"]) != moves
