import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, cross_entropy, max_pool2d

from gradcast.networks.hat import (
    REACH,
    STEEPEST,
    HatNetwork,
    compensated,
    cumulative,
    free_share,
    regulariser,
    slope,
)
from gradcast.randomness import seeded

SHAPE = (2, 12, 20)


def network(tasks: int = 3) -> HatNetwork:
    with seeded(0, "hat"):
        return HatNetwork(tasks, 4, shape=SHAPE, channels=(5, 6, 4), widths=(7, 6)).double().eval()


def images(seed: int = 0) -> Tensor:
    return torch.randn(8, *SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_slope_rises_from_its_inverse_to_the_steepest_within_an_epoch() -> None:
    assert [slope(batch, 3, 4.0) for batch in range(3)] == [0.25, 2.125, 4.0]
    assert (slope(0, 100), slope(99, 100)) == (1 / 400, 400.0)
    assert slope(0, 1) == STEEPEST


def test_gates_are_sigmoids_of_steep_embeddings() -> None:
    found = network().gates(1, 2.5)
    expected = [[1 / (1 + math.exp(-2.5 * e)) for e in embedding[1].tolist()] for embedding in network().embeddings]
    assert [len(gate) for gate in found] == [5, 6, 4, 7, 6]
    for gate, own in zip(found, expected, strict=True):
        torch.testing.assert_close(gate, torch.tensor(own, dtype=torch.float64))


def test_forward_against_plain_functions() -> None:
    net, h = network(), images()
    logits, gates = net(images(), 2, 1.5)
    for layer, gate in list(zip(net.layers, gates, strict=True))[:3]:
        h = max_pool2d(conv2d(h, layer.weight, layer.bias).relu(), 2) * gate[:, None, None]
    h = h.flatten(1)
    for layer, gate in list(zip(net.layers, gates, strict=True))[3:]:
        h = (h @ layer.weight.T + layer.bias).relu() * gate
    torch.testing.assert_close(logits, h @ net.heads[2].weight.T + net.heads[2].bias)


def test_cumulative_gates_are_the_larger_ones() -> None:
    first, second = torch.tensor([0.2, 0.9], requires_grad=True), torch.tensor([0.5, 0.1], requires_grad=True)
    once = cumulative(None, [first])
    assert once[0].tolist() == first.tolist()
    twice = cumulative(once, [second])
    assert twice[0].tolist() == [0.5, torch.tensor(0.9).item()]
    assert not twice[0].requires_grad


def test_the_regulariser_by_hand() -> None:
    now = [torch.tensor([0.5, 1.0]), torch.tensor([0.25])]
    before = [torch.tensor([1.0, 0.5]), torch.tensor([0.0])]
    assert regulariser(now, None, 1.0).item() == pytest.approx(1.75 / 3)
    assert regulariser(now, before, 1.0).item() == pytest.approx((0 + 0.5 + 0.25) / 1.5)
    assert regulariser(now, before).item() == pytest.approx(0.75 * 0.5)
    assert regulariser(now, [torch.ones(2), torch.ones(1)]).item() == 0.0  # nothing is left: nothing can be taken


def test_the_free_share_by_hand() -> None:
    after, before = torch.tensor([1.0, 0.25]), torch.tensor([0.5, 0.0])
    linear = free_share(after, before, torch.zeros(2, 2))
    assert linear.tolist() == [[0.5, 1.0], [0.75, 1.0]]
    kernels = free_share(after, before, torch.zeros(2, 2, 3, 3))
    assert kernels.shape == (2, 2, 1, 1)
    assert torch.equal(kernels.flatten(1), linear)
    rows = free_share(after, before, torch.zeros(2, 6))  # maps of three pixels
    assert rows.tolist() == [[0.5, 0.5, 0.5, 1.0, 1.0, 1.0], [0.75, 0.75, 0.75, 1.0, 1.0, 1.0]]
    assert free_share(after, None, torch.zeros(2, 2)).tolist() == [[0.0, 0.0], [0.75, 0.75]]


def test_rows_made_of_maps_belong_to_the_units_that_made_them() -> None:
    """Independently: which weights of the first linear layer see channel j, found by autograd."""
    net = network()
    linear = net.layers[3]
    assert isinstance(linear, nn.Linear)
    pixels = linear.in_features // 4
    for channel in range(4):
        maps = torch.zeros(1, 4, pixels, 1, dtype=torch.float64)
        maps[:, channel] = 1
        (sees,) = torch.autograd.grad(linear(maps.flatten(1)).sum(), linear.weight)
        free = free_share(torch.ones(7), nn.functional.one_hot(torch.tensor(channel), 4).double(), linear.weight)
        assert torch.equal(free == 0, sees != 0)


@pytest.mark.parametrize("s", [0.0025, 0.5, 1.0, 3.0])
def test_compensated_gradients_are_those_of_slope_one_times_the_steepest(s: float) -> None:
    embedding = torch.linspace(-6, 6, 25, dtype=torch.float64, requires_grad=True)
    (steep,) = torch.autograd.grad(torch.sigmoid(s * embedding).sum(), embedding)
    (plain,) = torch.autograd.grad(torch.sigmoid(embedding).sum(), embedding)
    torch.testing.assert_close(compensated(steep, embedding.detach(), s), STEEPEST * plain, rtol=1e-6, atol=0)


def test_compensation_stays_finite_where_the_hyperbolic_cosine_would_not() -> None:
    found = compensated(torch.ones(2), torch.tensor([-6.0, 6.0]), STEEPEST)
    expected = (math.cosh(50) + 1) / (math.cosh(6) + 1)
    assert found.tolist() == pytest.approx([expected, expected])


def test_embeddings_are_compensated_and_clipped_in_place() -> None:
    net = network()
    net(images(), 1, 2.0)[0].sum().backward()
    gradients = [embedding.grad.clone() for embedding in net.embeddings]
    net.compensate(2.0)
    for embedding, old in zip(net.embeddings, gradients, strict=True):
        assert torch.equal(embedding.grad, compensated(old, embedding.detach(), 2.0))
        embedding.data *= 10
    before = [embedding.detach().clone() for embedding in net.embeddings]
    net.clip_embeddings()
    for embedding, old in zip(net.embeddings, before, strict=True):
        assert old.abs().max() > REACH
        assert embedding.tolist() == [[min(max(e, -6.0), 6.0) for e in row] for row in old.tolist()]


def decided(net: HatNetwork) -> list[Tensor]:
    """The first task's gates become exactly zero or one."""
    for embedding in net.embeddings:
        embedding.data[0] = REACH * torch.where(torch.arange(embedding.shape[1]) % 3 < 2, 1.0, -1.0)
    gates = net.gates(0)
    assert all(set(gate.tolist()) == {0.0, 1.0} for gate in gates)
    return cumulative(None, gates)


def trained(net: HatNetwork, before: list[Tensor] | None) -> None:
    """A few steps of the second task."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(4):
        optimizer.zero_grad()
        s = slope(step, 4)
        logits, gates = net(images(step), 1, s)
        (cross_entropy(logits, torch.arange(8) % 4) + regulariser(gates, before)).backward()
        net.protect(before)
        net.compensate(s)
        torch.nn.utils.clip_grad_norm_(list(net.embeddings), 1.0)
        optimizer.step()
        net.clip_embeddings()


@pytest.mark.parametrize("protected", [True, False])
def test_protected_updates_leave_an_earlier_tasks_outputs_at_the_same_bits(protected: bool) -> None:
    net = network()
    before = decided(net)
    old, new = net(images(9), 0)[0], net(images(9), 1)[0]
    trained(net, before if protected else None)
    assert torch.equal(net(images(9), 0)[0], old) == protected
    assert not torch.equal(net(images(9), 1)[0], new)


def test_protection_multiplies_every_gradient_with_its_share() -> None:
    net = network()
    before = [torch.rand(len(gate), dtype=torch.float64) for gate in net.gates(0)]
    net(images(), 1, 1.0)[0].square().sum().backward()
    gradients = [(layer.weight.grad.clone(), layer.bias.grad.clone()) for layer in net.layers]
    head = net.heads[1].weight.grad.clone()
    net.protect(before)
    inputs = [None, *before[:-1]]
    for layer, (weight, bias), after, own in zip(net.layers, gradients, before, inputs, strict=True):
        torch.testing.assert_close(layer.weight.grad, weight * free_share(after, own, layer.weight))
        torch.testing.assert_close(layer.bias.grad, bias * (1 - after))
    assert torch.equal(net.heads[1].weight.grad, head)
