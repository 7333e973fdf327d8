import pytest
import torch
from torch import Tensor

from gradcast.core import Batch
from gradcast.learners.amalgamation import Amalgamation
from gradcast.learners.common_space import CommonSpace
from gradcast.networks.mlp import MLP
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.training.capture import Captured, fastest
from tests.helpers import EITHER_DEVICE, needs_gpu


def amalgamation(device: str = "cpu", *, alpha: float = 0.3) -> tuple[Amalgamation, Tensor]:
    """The step of two seeds in their second task, and twelve exemplars."""
    with seeded(0, "model"):
        modules = [MLP([6, 5, 4]) for _ in range(2)]
    model = Replicas(modules, Heads.even(2, 2, masked=True), device=torch.device(device), dtype=torch.float64)
    generator, width = torch.Generator().manual_seed(1), model.featured.width
    x, label, old, new = (
        torch.randn(2, 12, size, generator=generator, dtype=torch.float64).to(device) for size in (6, 4, width, width)
    )
    space = CommonSpace(width, [0, 1], 1, model.theta)
    return Amalgamation(model, space, label, (old, new), lr=0.01, alpha=alpha, beta=0.7), x


def trained(step: Amalgamation, x: Tensor, *, graphs: bool) -> tuple[Tensor, list[float]]:
    """Weights after twenty steps on four exemplars each, and the losses."""
    advance, every, losses = Captured(step) if graphs else step, torch.arange(2, device=x.device).unsqueeze(1), []
    for number in range(20):
        rows = torch.tensor([[(number + 3 * i + seed) % 12 for i in range(4)] for seed in range(2)], device=x.device)
        losses.append(advance(Batch(x[every, rows], rows, 1), ())["loss"].sum().item())
    return step.model.theta.clone(), losses


def test_the_loss_falls_and_every_weight_of_the_common_space_moves() -> None:
    step, x = amalgamation()
    before = [weight.detach().clone() for weight in step.space.weights]
    _, losses = trained(step, x, graphs=False)
    assert losses[-1] < 0.9 * losses[0]
    assert all(not torch.equal(old, new) for old, new in zip(before, step.space.weights, strict=True))


def test_without_the_loss_of_features_the_common_space_stays() -> None:
    step, x = amalgamation(alpha=1.0)
    before = [weight.detach().clone() for weight in step.space.weights]
    trained(step, x, graphs=False)
    assert all(torch.equal(old, new) for old, new in zip(before, step.space.weights, strict=True))


def test_an_exemplar_is_known_by_its_place() -> None:
    step, x = amalgamation()
    other, _ = amalgamation()
    other.label = other.label.clone()
    other.label[:, 7] += 1.0  # of an exemplar that is in no batch
    rows = torch.tensor([[0, 1, 2], [3, 4, 5]])
    batch = Batch(x[torch.arange(2).unsqueeze(1), rows], rows, 1)
    step(batch)
    other(batch)
    assert torch.equal(step.model.theta, other.model.theta)


@pytest.mark.parametrize("device", EITHER_DEVICE)
def test_graphs_are_for_a_gpu(device: str) -> None:
    step, _ = amalgamation(device)
    assert isinstance(fastest(step), Captured) == (device == "cuda")


@needs_gpu
def test_graphs_train_as_steps_do() -> None:
    found, losses = trained(*amalgamation("cuda"), graphs=True)
    wanted, expected = trained(*amalgamation("cuda"), graphs=False)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    assert losses == pytest.approx(expected, rel=1e-9)
