"""h's step against autograd through an explicit step of the model along h's predictions."""

import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy, normalize

from gradcast.core import Unlabelled
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.randomness import seeded
from gradcast.replicas.replicas import Replicas
from gradcast.signals.meta_fitness import MetaFitness
from tests.helpers import batch, replicas
from tests.replicas.test_replicas import own_module
from tests.signals.scene import ALL, Scene


def learner(count: int) -> GradientLearner:
    with seeded(0, "h"):
        return GradientLearner(3, (8, 5), alpha=0.05, loss_scale=2.0, replicas=(count,)).double()


def moment(lr: float = 0.1) -> Scene:
    model = replicas(2, norm="batch")
    unlabelled = Unlabelled(batch(model, seed=100).x, ALL)
    return Scene(model, batch(model), unlabelled, torch.full((2,), lr, dtype=torch.float64))


def predicted(h: GradientLearner, z: Tensor, dz: Tensor, replica: int) -> Tensor:
    """``alpha tau g / |g|``, spelled out for one replica."""
    for weight in h.weights[:-1]:
        z = (z @ weight[replica].mT).relu()
    return 0.05 * dz.norm(dim=1).mean() * normalize(z @ h.weights[-1][replica].mT, dim=1)


def fitness(model: Replicas, h: GradientLearner, at: Scene, replica: int, lr: float) -> tuple[Tensor, Tensor]:
    """The labelled loss after a step along h's predictions, and before it."""
    module = own_module(model, replica).eval()
    weights, x, y = dict(module.named_parameters()), at.batch.x[replica], at.batch.y[replica]
    logits = module(x).detach().requires_grad_()
    (dz,) = torch.autograd.grad(cross_entropy(logits, y), logits)
    z = module(at.unlabelled.x[replica])
    gbar = predicted(h, z.detach(), dz, replica)
    step = torch.autograd.grad(z, list(weights.values()), gbar, create_graph=True)
    after = {name: w.detach() - lr * g for (name, w), g in zip(weights.items(), step, strict=True)}
    return cross_entropy(functional_call(module, after, (x,)), y), cross_entropy(module(x), y)


@pytest.mark.parametrize(("exact", "lr", "error"), [(False, 1e-5, 1e-3), (True, 1e-5, 1e-3), (True, 10.0, 2e-3)])
def test_h_steps_down_the_derivative_of_the_labelled_loss_after_the_models_step(
    exact: bool, lr: float, error: float
) -> None:
    """Without ``exact`` that is the first order in the learning rate, with it any learning rate will do."""
    at, h, before = moment(lr), learner(2), learner(2)
    model = at.model
    told = MetaFitness(h, exact=exact).look(at.preview)
    for replica in range(2):
        after, start = fitness(model, before, at, replica, lr)
        gradients = torch.autograd.grad(2.0 * after, list(before.parameters()))
        for now, then, gradient in zip(h.parameters(), before.parameters(), gradients, strict=True):
            moved = (now - then)[replica].detach()
            expected = -lr * gradient[replica]
            assert (moved - expected).norm() < error * expected.norm()
        if not exact:
            assert float(told["gain"][replica]) == pytest.approx(float((start - after).detach()), rel=1e-3)


def test_far_away_only_the_exact_gradient_is_right() -> None:
    model, at = moment().model, moment(10.0)
    far, near = learner(2), learner(2)
    MetaFitness(far, exact=True).look(at.preview)
    MetaFitness(near).look(at.preview)
    assert not torch.allclose(far.weights[0], near.weights[0], rtol=1e-2, atol=1e-6)
    assert torch.equal(model.theta, at.model.theta)  # neither touched the model


def test_predictions_are_those_of_the_updated_h_whole_from_the_first_step_on() -> None:
    at, part = moment(), MetaFitness(learner(2))
    tau = part.look(at.preview)["tau"]
    z = torch.randn(2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    slopes, told = part.slopes(at.model, z, at.unlabelled, 0)
    assert torch.equal(slopes, part.learner.predict(z))
    torch.testing.assert_close(slopes.norm(dim=-1), (0.05 * tau).unsqueeze(1).expand(2, 4))
    assert told == {}
    assert not part.ramped
    assert set(part.state()) == {f"learner.weights.{layer}" for layer in range(3)}
