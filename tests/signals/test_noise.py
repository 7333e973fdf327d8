import pytest
import torch

from gradcast.core import Unlabelled
from gradcast.gradients.length import Length
from gradcast.randomness import torch_generator
from gradcast.signals.noise import Distribution, Noise
from tests.signals.scene import ALL, scene


def make(distribution: Distribution = "normal", length: Length | None = None) -> Noise:
    return Noise(3, [torch_generator(r, "directions") for r in range(2)], distribution=distribution, length=length)


@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_the_gradient_is_the_noise_through_the_network(distribution: Distribution) -> None:
    at, signal = scene(linear=True), make(distribution)
    found = at.gradient(signal)
    generators = [torch_generator(r, "directions") for r in range(2)]
    draw = {
        "normal": lambda g: torch.randn(6, 3, generator=g, dtype=torch.float64),
        "uniform": lambda g: 2 * torch.rand(6, 3, generator=g, dtype=torch.float64) - 1,
    }[distribution]
    drawn = torch.stack([draw(g) for g in generators])
    weights = torch.einsum("ruc,rui->rci", drawn, at.unlabelled.x)
    torch.testing.assert_close(found[:, 18:36].view(2, 3, 6), weights)  # the second task's columns
    assert not found[:, :18].any()
    assert at.learn(signal) == {}


def test_with_a_length_rows_are_brought_to_it() -> None:
    at, signal = scene(linear=True), make(length=Length(0.5))
    tau = at.learn(signal)["tau"]
    x = torch.eye(6, dtype=torch.float64).expand(2, 6, 6).contiguous()  # the gradient of column i is image i's
    shown = Unlabelled(x, ALL)
    found = []
    for _ in range(2):
        signal.prepare(at.batch, shown)
        found.append(signal.gradient(at.model, shown, 1)[0].flat[:, 18:36].view(2, 3, 6))
    torch.testing.assert_close(found[0].norm(dim=1), (0.5 * tau).unsqueeze(1).expand(2, 6))
    assert not torch.allclose(found[0], found[1])


def test_a_replica_that_sits_out_draws_nothing() -> None:
    at, signal = scene(), make()
    signal.prepare(at.batch, Unlabelled(at.unlabelled.x, torch.tensor([True, False])))
    signal.prepare(at.batch, Unlabelled(at.unlabelled.x, torch.tensor([False, True])))
    signal.prepare(at.batch, None)
    assert signal.drawn is not None
    first = torch.randn(6, 3, generator=torch_generator(1, "directions"), dtype=torch.float64)
    assert torch.equal(signal.drawn[1], first)
