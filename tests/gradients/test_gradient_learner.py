from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gradcast.errors import GradcastError
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.signals.predicted import PredictedSpec
from tests.helpers import flat

ETA = 0.1


def labelled(seed: int = 0, batch: int = 6, classes: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(batch, classes, generator=generator, dtype=torch.float64, requires_grad=True)
    y = torch.randint(classes, (batch,), generator=generator)
    (dz,) = torch.autograd.grad(cross_entropy(z, y), z)
    return z.detach(), dz, y


def make(**options: object) -> GradientLearner:
    torch.manual_seed(0)
    return GradientLearner(4, (8, 5), **{"alpha": 0.05, "loss_scale": 2.0, **options}).double()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("classes", "hidden", "bias", "count"),
    [
        (10, (64, 16), False, 1824),
        (10, (64, 16), True, 1914),
        (5, (128, 32), False, 4896),
        (5, (128, 32), True, 5061),
        (5, (64, 16), False, 1424),
        (10, (128, 32), False, 5696),
        (100, (128, 32), False, 20096),
    ],
)
def test_parameter_counts(classes: int, hidden: tuple[int, ...], bias: bool, count: int) -> None:
    assert flat(GradientLearner(classes, hidden, bias=bias)).numel() == count


def test_predictions_have_length_alpha_tau() -> None:
    z, dz, y = labelled()
    learner = make()
    learner.learn(z, dz, y, eta=ETA)
    tau = dz.norm(dim=1).mean()
    rows = learner.predict(torch.randn(9, 4, dtype=torch.float64)).norm(dim=1)
    torch.testing.assert_close(rows, torch.full((9,), 0.05 * float(tau), dtype=torch.float64))


def test_tau_carries_the_factor_of_the_batch_mean() -> None:
    """The gradient of the batch's mean loss has rows (softmax(z) - onehot) / batch."""
    z, dz, y = labelled()
    learner = make()
    seen = learner.learn(z, dz, y, eta=ETA)
    error = torch.softmax(z, 1) - torch.nn.functional.one_hot(y, 4)
    torch.testing.assert_close(seen.tau, error.norm(dim=1).mean() / len(z))


def test_fitness_gradient_against_the_closed_form() -> None:
    """dl/dG_i = -(lambda eta alpha tau) / (B ||G_i||) (I - g g') r_i, with r the error after the move."""
    z, dz, y = labelled()
    learner = make()
    learner.length.observe(dz)
    output = learner(z).detach().requires_grad_()
    loss = 2.0 * cross_entropy(z - ETA * learner.length.rescale(output), y)
    (found,) = torch.autograd.grad(loss, output)
    tau = dz.norm(dim=1).mean()
    norm = output.norm(dim=1, keepdim=True)
    unit = output / norm
    r = torch.softmax(z - ETA * 0.05 * tau * unit, 1) - torch.nn.functional.one_hot(y, 4)
    expected = -(2.0 * ETA * 0.05 * tau) / (len(z) * norm) * (r - unit * (unit * r).sum(1, keepdim=True))
    torch.testing.assert_close(found, expected.detach(), rtol=1e-10, atol=1e-16)
    torch.testing.assert_close((found * output).sum(1), torch.zeros(len(z), dtype=torch.float64), atol=1e-18, rtol=0)


def test_learning_is_one_sgd_step_on_the_fitness_loss() -> None:
    z, dz, y = labelled()
    learner, other = make(), make()
    learner.learn(z, dz, y, eta=ETA)
    tau = dz.norm(dim=1).mean()
    w1, w2, w3 = (w.detach().requires_grad_() for w in other.weights)
    g = torch.relu(torch.relu(z @ w1.T) @ w2.T) @ w3.T
    loss = 2.0 * cross_entropy(z - ETA * 0.05 * tau * g / g.norm(dim=1, keepdim=True), y)
    gradients = torch.autograd.grad(loss, (w1, w2, w3))
    expected = torch.cat([(w - ETA * d).detach().flatten() for w, d in zip((w1, w2, w3), gradients, strict=True)])
    torch.testing.assert_close(flat(learner), expected, rtol=1e-12, atol=1e-15)


def test_gain_and_cosine() -> None:
    z, dz, y = labelled()
    learner = make()
    output = learner(z).detach()
    seen = learner.learn(z, dz, y, eta=ETA)
    moved = cross_entropy(z - ETA * 0.05 * dz.norm(dim=1).mean() * output / output.norm(dim=1, keepdim=True), y)
    torch.testing.assert_close(seen.gain, cross_entropy(z, y) - moved)
    torch.testing.assert_close(seen.loss, 2.0 * moved)
    products = (output * dz).sum(1) / (output.norm(dim=1) * dz.norm(dim=1))
    torch.testing.assert_close(seen.cosine, products.mean())


def test_cosine_objective_really_learns() -> None:
    learner = make(objective="cosine", lr=0.5)
    z, dz, y = labelled(batch=8)
    first = learner.learn(z, dz, y, eta=ETA)
    torch.testing.assert_close(first.loss, 2.0 * (1 - first.cosine))
    for _ in range(200):
        last = learner.learn(z, dz, y, eta=ETA)
    assert float(last.cosine) > 0.9
    assert float(last.gain) > float(first.gain)


def test_own_learning_rate_and_loss_scale_multiply_alike() -> None:
    z, dz, y = labelled()
    by_rate, by_scale = make(lr=0.3, loss_scale=1.0), make(lr=0.1, loss_scale=3.0)
    by_rate.learn(z, dz, y, eta=ETA)
    by_scale.learn(z, dz, y, eta=ETA)
    torch.testing.assert_close(flat(by_rate), flat(by_scale), rtol=1e-12, atol=0)


def test_adam_is_torchs() -> None:
    z, dz, y = labelled()
    learner = make(optimizer="adam", lr=0.01)
    before = flat(learner)
    learner.learn(z, dz, y, eta=ETA)
    moved = (flat(learner) - before).abs()
    assert float(moved.max()) == pytest.approx(0.01, rel=1e-3)  # Adam's first step has the size of its rate


def test_per_sample_tau() -> None:
    z, dz, y = labelled()
    learner = make(tau="per_sample")
    learner.learn(z, dz, y, eta=ETA)
    rows = learner.predict(torch.randn_like(z)).norm(dim=1)
    torch.testing.assert_close(rows, 0.05 * dz.norm(dim=1))
    with pytest.raises(ValueError, match="as many unlabelled as labelled"):
        learner.predict(torch.randn(3, 4, dtype=torch.float64))


def test_zero_rows_contribute_nothing_and_break_nothing() -> None:
    z, dz, y = labelled()
    learner = make()
    for weight in learner.weights:
        weight.data.zero_()
    seen = learner.learn(z, dz, y, eta=ETA)
    assert not learner.predict(z).any()
    assert float(seen.gain) == 0
    assert torch.isfinite(flat(learner)).all()


@pytest.mark.parametrize("objective", ["fitness", "cosine"])
def test_a_zero_last_layer_learns_with_finite_steps(objective: str) -> None:
    z, dz, y = labelled()
    learner = make(objective=objective)
    learner.weights[-1].data.zero_()
    learner.learn(z, dz, y, eta=ETA)
    assert flat(learner).abs().max() < 10


def test_neither_network_sees_the_others_gradient() -> None:
    _, dz, y = labelled()
    host = torch.nn.Linear(3, 4).double()
    learner = make()
    learner.learn(host(torch.randn(6, 3, dtype=torch.float64)), dz, y, eta=ETA)
    assert host.weight.grad is None
    before = flat(learner)
    for parameter in learner.parameters():
        parameter.grad = None
    x = torch.randn(5, 3, dtype=torch.float64)
    z_u = host(x)
    prediction = learner.predict(z_u)
    learner.backward(z_u)
    assert all(parameter.grad is None for parameter in learner.parameters())
    assert torch.equal(flat(learner), before)
    torch.testing.assert_close(host.weight.grad, prediction.T @ x)  # a sum over the images, not a mean


def test_replicas_equal_learners_alone() -> None:
    stacked = GradientLearner(4, (8, 5), alpha=0.05, loss_scale=50.0, replicas=(3,), bias=True).double()
    alone = [GradientLearner(4, (8, 5), alpha=0.05, loss_scale=50.0, bias=True).double() for _ in range(3)]
    for replica, learner in enumerate(alone):
        for together, own in zip(stacked.parameters(), learner.parameters(), strict=True):
            own.data.copy_(together.data[replica])
    data = [labelled(seed) for seed in range(3)]
    z, dz, y = (torch.stack(parts) for parts in zip(*data, strict=True))
    z_u = torch.randn(3, 5, 4, dtype=torch.float64)
    for _ in range(3):
        seen = stacked.learn(z, dz, y, eta=ETA)
        own_seen = [learner.learn(*data[r], eta=ETA) for r, learner in enumerate(alone)]
    torch.testing.assert_close(seen.cosine, torch.stack([own.cosine for own in own_seen]))
    torch.testing.assert_close(
        stacked.predict(z_u), torch.stack([learner.predict(z_u[r]) for r, learner in enumerate(alone)])
    )


@pytest.mark.parametrize("activation", ["relu", "tanh", "none"])
def test_activations(activation: str) -> None:
    learner = make(activation=activation)
    z = torch.randn(7, 4, dtype=torch.float64)
    act = {"relu": torch.relu, "tanh": torch.tanh, "none": lambda v: v}[activation]
    w1, w2, w3 = learner.weights
    torch.testing.assert_close(learner(z), act(act(z @ w1.T) @ w2.T) @ w3.T)


def test_bias_is_added_in_every_layer() -> None:
    learner = GradientLearner(4, (), bias=True).double()
    z = torch.randn(7, 4, dtype=torch.float64)
    torch.testing.assert_close(learner(z), torch.nn.functional.linear(z, learner.weights[0], learner.biases[0][0]))


def test_predicting_before_learning_is_refused() -> None:
    with pytest.raises(RuntimeError, match="call learn"):
        make().predict(torch.randn(2, 4, dtype=torch.float64))


def stacked(**options: object) -> tuple[GradientLearner, list[GradientLearner]]:
    """Two learners in one, and the same apart."""
    both, alone = make(replicas=(2,), **options), [make(**options) for _ in range(2)]
    for replica, own in enumerate(alone):
        for together, weight in zip(both.parameters(), own.parameters(), strict=True):
            weight.data = together.data[replica].reshape(weight.shape).clone()
    return both, alone


def test_momentum_and_decay_are_torchs_and_every_replica_has_its_own_rate() -> None:
    both, alone = stacked(momentum=0.9, decay=0.1, bias=True, activation="none")
    etas = [0.3, 0.07]
    optimizers = [
        torch.optim.SGD(own.parameters(), lr=eta, momentum=0.9, weight_decay=0.1)
        for own, eta in zip(alone, etas, strict=True)
    ]
    for step in range(4):
        samples = [labelled(2 * step + replica) for replica in range(2)]
        if step == 2:
            both.renew(torch.tensor([True, False]))
            optimizers[0].state.clear()
        z, dz, y = (torch.stack(each) for each in zip(*samples, strict=True))
        both.learn(z, dz, y, eta=torch.tensor(etas, dtype=torch.float64))
        for own, eta, optimizer, (z, dz, y) in zip(alone, etas, optimizers, samples, strict=True):
            output = own(z)
            moved = z - eta * 0.05 * dz.norm(dim=1).mean() * output / output.norm(dim=1, keepdim=True)
            optimizer.zero_grad()
            (2.0 * cross_entropy(moved, y)).backward()
            optimizer.step()
    for replica, own in enumerate(alone):
        found = torch.cat([weight.detach()[replica].flatten() for weight in both.parameters()])
        torch.testing.assert_close(found, flat(own), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("lr", [None, 0.2])
def test_a_replica_whose_host_stands_still_learns_nothing(lr: float | None) -> None:
    both, _ = stacked(lr=lr, decay=0.1)
    before = [weight.detach().clone() for weight in both.parameters()]
    z, dz, y = (torch.stack([each, each]) for each in labelled())
    both.learn(z, dz, y, eta=torch.tensor([0.0, 0.1], dtype=torch.float64))
    for now, then in zip(both.parameters(), before, strict=True):
        assert torch.equal(now[0], then[0])
        assert not torch.equal(now[1], then[1])


def test_momentum_is_not_for_adam() -> None:
    with pytest.raises(GradcastError, match="momentum and decay are for the optimizer 'sgd'"):
        make(optimizer="adam", momentum=0.9)


def test_following_a_slope_is_a_step_down_it_through_length_and_network() -> None:
    z, dz, _ = labelled()
    slope = torch.randn(6, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found, expected = make(), make()
    for own in (found, expected):
        own.length.observe(dz)
    change = found.follow(z, slope, eta=ETA)
    predicted = 0.05 * dz.norm(dim=1).mean() * torch.nn.functional.normalize(expected(z), dim=1)
    inner = (predicted * slope).sum()
    gradients = torch.autograd.grad(2.0 * inner, list(expected.parameters()))
    for weight, before, gradient in zip(found.parameters(), expected.parameters(), gradients, strict=True):
        torch.testing.assert_close(weight, before - ETA * gradient)
    torch.testing.assert_close(change, inner.detach())


def test_without_a_gradient_it_takes_that_of_the_mean_cross_entropy() -> None:
    z, dz, y = labelled()
    given, computed = make(), make()
    seen, other = given.learn(z, dz, y, eta=ETA), computed.learn(z, None, y, eta=ETA)
    torch.testing.assert_close(other.tau, seen.tau)
    torch.testing.assert_close(other.cosine, seen.cosine)
    torch.testing.assert_close(flat(computed), flat(given))


def test_wrong_shapes_are_one_sentence() -> None:
    z, dz, y = labelled()
    learner = make()
    with pytest.raises(GradcastError, match=r"logits have the shape \[6, 3\]; give \[batch, 4\]"):
        learner.learn(z[:, :3], None, y, eta=ETA)
    with pytest.raises(GradcastError, match="dz has the shape"):
        learner.learn(z, dz[:2], y, eta=ETA)
    with pytest.raises(GradcastError, match="one label a row"):
        learner.learn(z, dz, y[:2], eta=ETA)
    learner.learn(z, dz, y, eta=ETA)
    with pytest.raises(GradcastError, match=r"give \[batch, 4\]"):
        learner.predict(z[0])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9, "decay": 0.01},
        {"optimizer": "adam", "lr": 0.01},
        {"replicas": (2,), "momentum": 0.9},
        {"tau": "previous"},
    ],
)
def test_a_saved_learner_goes_on_to_the_same_bits(options: dict[str, object], tmp_path: Path) -> None:
    samples = [labelled(seed) for seed in range(6)]
    if "replicas" in options:
        samples = [tuple(torch.stack([each, each.flip(0)]) for each in sample) for sample in samples]  # type: ignore[misc]
    whole, begun = make(**options), make(**options)
    for z, dz, y in samples[:3]:
        whole.learn(z, dz, y, eta=ETA)
        begun.learn(z, dz, y, eta=ETA)
    torch.save(begun.state_dict(), tmp_path / "h.pt")
    torch.manual_seed(7)
    resumed = GradientLearner(4, (8, 5), **{"alpha": 0.05, "loss_scale": 2.0, **options}).double()  # type: ignore[arg-type]
    resumed.load_state_dict(torch.load(tmp_path / "h.pt", weights_only=True))
    assert torch.equal(resumed.predict(samples[3][0]), whole.predict(samples[3][0]))
    for z, dz, y in samples[3:]:
        whole.learn(z, dz, y, eta=ETA)
        resumed.learn(z, dz, y, eta=ETA)
    assert torch.equal(flat(resumed), flat(whole))


def test_a_loaded_learner_shares_nothing_with_the_one_it_came_from() -> None:
    z, dz, y = labelled()
    first, second = make(momentum=0.9), make(momentum=0.9)
    first.learn(z, dz, y, eta=ETA)
    second.load_state_dict(first.state_dict())
    before = second.state_dict()["_extra_state"]["optimizer"]["velocity"][0].clone()
    first.learn(z, dz, y, eta=ETA)
    assert torch.equal(second.state_dict()["_extra_state"]["optimizer"]["velocity"][0], before)


def test_a_learner_that_has_not_learned_is_saved_and_loaded_too() -> None:
    learner = make()
    learner.load_state_dict(make().state_dict())
    with pytest.raises(RuntimeError, match="call learn"):
        learner.predict(labelled()[0])


def test_the_defaults_are_those_of_the_signal_in_a_specification() -> None:
    spec, learner = PredictedSpec(name="predicted"), GradientLearner(10)
    assert (spec.hidden, spec.alpha, spec.loss_scale) == ([64, 16], 0.001, 0.3)
    assert [tuple(weight.shape) for weight in learner.weights] == [(64, 10), (16, 64), (10, 16)]
    assert (learner.length.alpha, learner.loss_scale) == (spec.alpha, spec.loss_scale)
