import math

import torch

from gradcast.networks.mlp import MLP
from tests.helpers import flat


def test_published_network_has_89610_parameters() -> None:
    assert flat(MLP([784, 100, 100, 10])).numel() == 89_610


def test_initialisation_follows_the_fan_average_rule() -> None:
    layer = MLP([300, 200, 10]).layers[0]
    bound = math.sqrt(6 / 500)
    assert layer.weight.abs().max() <= bound
    assert layer.weight.abs().max() > 0.99 * bound
    assert not layer.bias.any()


def test_forward_against_plain_products() -> None:
    network = MLP([8, 5, 4, 3]).double()
    x = torch.randn(6, 2, 2, 2, dtype=torch.float64)
    h = x.flatten(1)
    w1, b1, w2, b2, w3, b3 = network.parameters()
    expected = torch.relu(torch.relu(h @ w1.T + b1) @ w2.T + b2) @ w3.T + b3
    torch.testing.assert_close(network(x), expected)


def test_depth_and_norm_are_free() -> None:
    assert len(list(MLP([4, 2]).parameters())) == 2
    deep = MLP([4, 8, 8, 8, 2], norm="batch")
    assert sum("running" in name for name, _ in deep.named_buffers()) == 6
    assert deep(torch.randn(5, 4)).shape == (5, 2)
