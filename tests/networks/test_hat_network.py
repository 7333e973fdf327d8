import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d

from gradcast.networks.hat_network import (
    STEEPEST,
    HatNetwork,
    compensated,
    free_share,
    gates,
    regulariser,
    slope,
)
from gradcast.randomness import seeded

SHAPE = (2, 12, 20)


def test_the_slope_rises_from_its_inverse_to_the_steepest_within_an_epoch() -> None:
    assert [slope(batch, 3, 4.0) for batch in range(3)] == [0.25, 2.125, 4.0]
    assert (slope(0, 100), slope(99, 100)) == (1 / 400, 400.0)
    assert slope(0, 1) == STEEPEST


def network() -> HatNetwork:
    with seeded(0, "hat"):
        return HatNetwork(4, shape=SHAPE, channels=(5, 6, 4), widths=(7, 6)).double().eval()


def images(seed: int = 0) -> Tensor:
    return torch.randn(8, *SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_gates_are_sigmoids_of_steep_embeddings() -> None:
    embedding = torch.tensor([[-1.0, 0.3], [0.0, 2.0]], dtype=torch.float64)
    expected = [[1 / (1 + math.exp(-2.5 * e)) for e in row] for row in embedding.tolist()]
    torch.testing.assert_close(gates(embedding, 2.5), torch.tensor(expected, dtype=torch.float64))


def test_forward_against_plain_functions() -> None:
    net, h = network(), images()
    net.slope.fill_(1.5)
    own = [gates(embedding.detach(), 1.5) for embedding in net.embeddings]
    for layer, gate in list(zip(net.layers, own, strict=True))[:3]:
        h = max_pool2d(conv2d(h, layer.weight, layer.bias).relu(), 2) * gate[:, None, None]
    h = h.flatten(1)
    for layer, gate in list(zip(net.layers, own, strict=True))[3:]:
        h = (h @ layer.weight.T + layer.bias).relu() * gate
    torch.testing.assert_close(net(images()), h @ net.head.weight.T + net.head.bias)


def test_the_regulariser_by_hand_and_its_gradient_by_autograd() -> None:
    now = torch.tensor([[0.5, 1.0, 0.25]], requires_grad=True)
    before = torch.tensor([[1.0, 0.5, 0.0]])
    assert regulariser(now, torch.zeros(1, 3), 1.0)[0].item() == pytest.approx(1.75 / 3)
    loss, slopes = regulariser(now, before, 1.0)
    assert loss.item() == pytest.approx((0 + 0.5 + 0.25) / 1.5)
    assert regulariser(now, before)[0].item() == pytest.approx(0.75 * 0.5)
    assert regulariser(now, torch.ones(1, 3))[0].item() == 0.0  # nothing is left: nothing can be taken
    (expected,) = torch.autograd.grad((now * (1 - before)).sum() / (1 - before).sum(), now)
    torch.testing.assert_close(slopes.detach(), expected)


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
