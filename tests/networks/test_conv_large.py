import pytest
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, conv2d, leaky_relu, max_pool2d

from gradcast.networks.conv_large import ConvLarge
from tests.helpers import flat


@pytest.mark.parametrize(("outputs", "count"), [(10, 3_121_802), (100, 3_133_412)])
def test_published_number_of_parameters(outputs: int, count: int) -> None:
    assert flat(ConvLarge(outputs)).numel() == count


def test_forward_against_plain_functions() -> None:
    network = ConvLarge(3, channels=1, dropout=0.0).double().train()
    x = h = torch.randn(2, 1, 12, 12, dtype=torch.float64)
    weights = iter(network.parameters())
    for stage in range(3):
        for layer in range(3):
            w, scale, shift = next(weights), next(weights), next(weights)
            h = conv2d(h, w, padding=1 if stage < 2 else 0)
            h = leaky_relu(batch_norm(h, None, None, scale, shift, training=True), 0.1)
            assert w.shape[2:] == ((1, 1) if stage == 2 and layer else (3, 3))
        h = max_pool2d(h, 2) if stage < 2 else h
    w, b = weights
    assert h.shape == (2, 128, 1, 1)
    torch.testing.assert_close(network(x), h.flatten(1) @ w.T + b)


def test_dropout_takes_whole_channels_after_each_pooling() -> None:
    network = ConvLarge(3).train()
    seen: list[Tensor] = []
    network.dropout.register_forward_hook(lambda _, inputs, output: seen.append(output / inputs[0]))
    network(torch.randn(4, 3, 16, 16))
    for factors in seen:
        channels = factors.flatten(2)
        torch.testing.assert_close(channels, channels[:, :, :1].expand_as(channels))
        assert set(channels.unique().round(decimals=4).tolist()) == {0.0, 2.0}
    assert [tuple(factors.shape[1:]) for factors in seen] == [(128, 8, 8), (256, 4, 4)]


def test_no_dropout_at_evaluation() -> None:
    network, x = ConvLarge(3).eval(), torch.randn(2, 3, 16, 16)
    assert torch.equal(network(x), network(x))
