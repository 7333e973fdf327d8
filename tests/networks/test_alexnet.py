import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, max_pool2d

from gradcast.errors import GradcastError
from gradcast.networks.alexnet import SMALLEST, AlexNetBody, AlexNetLike
from tests.helpers import flat

NARROW = (8, 8, 8)


def test_published_modules_have_2897984_and_7754688_parameters() -> None:
    assert flat(AlexNetBody((3, 32, 32))).numel() == 2_897_984
    assert flat(AlexNetBody((3, 84, 84), 256, (512, 512, 512))).numel() == 7_754_688


@pytest.mark.parametrize(("side", "kernels", "left"), [(32, [4, 3, 2], 2), (84, [10, 8, 2], 7)])
def test_kernels_and_what_is_left_of_the_published_images(side: int, kernels: list[int], left: int) -> None:
    body = AlexNetBody((3, side, side), 4, NARROW)
    found = [layer.kernel_size for layer in body.convolutions if isinstance(layer, nn.Conv2d)]
    assert found == [(kernel, kernel) for kernel in kernels]
    assert body.convolutions(torch.zeros(1, 3, side, side)).shape == (1, 256, left, left)


def test_forward_against_plain_functions() -> None:
    network = AlexNetLike(3, shape=(1, 20, 33), latent=5, widths=(6, 7)).double().eval()
    x = h = torch.randn(4, 1, 20, 33, dtype=torch.float64)
    *weights, last, shift = network.parameters()
    pairs = list(zip(weights[::2], weights[1::2], strict=True))
    for w, b in pairs[:3]:
        h = max_pool2d(conv2d(h, w, b).relu(), 2)
    h = h.flatten(1)
    for w, b in pairs[3:]:
        h = (h @ w.T + b).relu()
    torch.testing.assert_close(network.body(x), h)
    torch.testing.assert_close(network(x), h @ last.T + shift)
    assert [len(w) for w, _ in pairs] == [64, 128, 256, 6, 7, 5]


def test_the_published_dropouts() -> None:
    body = AlexNetBody((3, 32, 32), 4, NARROW)
    rates = [layer.p for layer in body.modules() if isinstance(layer, nn.Dropout)]
    assert rates == [0.2, 0.2, 0.5, 0.5, 0.5, 0.5, 0.5]


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 11, 32), (3, 32, 11)])
def test_too_small_images_are_refused_in_a_sentence(shape: tuple[int, int, int]) -> None:
    with pytest.raises(GradcastError, match=f"images of {shape[1]}x{shape[2]} are too small.*12x12 or more: enlarge"):
        AlexNetLike(3, shape=shape)
    assert SMALLEST == 12


@pytest.mark.parametrize("side", [*range(12, 32), 39, 40, 49, 50])
def test_all_larger_images_fit(side: int) -> None:
    assert AlexNetLike(3, shape=(1, side, side), latent=4, widths=NARROW)(torch.zeros(1, 1, side, side)).shape == (1, 3)
