import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, conv_transpose2d, leaky_relu, linear

from gradcast.networks.autoencoder import decoder, encoder, shapes


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (2, 9, 13), (1, 8, 8), (6,)])
def test_the_decoder_gives_what_the_encoder_takes(shape: tuple[int, ...]) -> None:
    x = torch.randn(2, *shape)
    code = encoder(shape, [4, 5, 6], 3)(x)
    assert code.shape == (2, 6)
    assert decoder(shape, [4, 5, 6], 3)(code[:, :3]).shape == x.shape


def test_layers_halve_images_and_keep_vectors() -> None:
    assert shapes((1, 28, 30), [4, 5]) == [(1, 28, 30), (4, 14, 15), (5, 7, 7)]
    assert shapes((6,), [4, 5]) == [(6,), (4,), (5,)]


def test_images_against_plain_functions() -> None:
    shape, widths = (2, 9, 6), [3, 4]
    there, back = encoder(shape, widths, 5).double(), decoder(shape, widths, 5).double()
    x, (a, b, c) = torch.randn(2, *shape, dtype=torch.float64), _layers(there)
    h = leaky_relu(conv2d(x, a.weight, a.bias, stride=2, padding=1), 0.1)
    h = leaky_relu(conv2d(h, b.weight, b.bias, stride=2, padding=1), 0.1)
    torch.testing.assert_close(there(x), linear(h.flatten(1), c.weight, c.bias))
    z, (a, b, c) = torch.randn(2, 5, dtype=torch.float64), _layers(back)
    h = leaky_relu(linear(z, a.weight, a.bias).view(2, 4, 2, 1), 0.1)
    h = leaky_relu(conv_transpose2d(h, b.weight, b.bias, stride=2, padding=1, output_padding=(0, 1)), 0.1)
    expected = conv_transpose2d(h, c.weight, c.bias, stride=2, padding=1, output_padding=(1, 0))
    torch.testing.assert_close(back(z), expected)


def _layers(network: nn.Module) -> list[nn.Conv2d]:
    return [layer for layer in network.modules() if list(layer.parameters(recurse=False))]  # type: ignore[misc]


def test_vectors_have_linear_layers() -> None:
    kinds = [type(layer) for network in (encoder((6,), [4], 3), decoder((6,), [4], 3)) for layer in _layers(network)]
    assert kinds == [nn.Linear] * 4
