import numpy as np
import pytest
import torch

from gradcast.data.images import Moments
from gradcast.errors import GradcastError
from gradcast.streams.scale import Scale, reference_scale, scale_for


def test_unit_scale() -> None:
    assert Scale()(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), torch.float64).flatten().tolist() == [0, 0.2, 1]
    assert scale_for("unit", 1) == Scale()


def test_standard_scale_has_mean_zero_and_deviation_one() -> None:
    x = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 4), dtype=np.uint8)
    x[:, 1] //= 3
    scaled = scale_for("standard", x.shape[1], lambda: Moments.of(x))(torch.from_numpy(x), torch.float64)
    torch.testing.assert_close(scaled.mean((0, 2, 3)), torch.zeros(3, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(scaled.std((0, 2, 3), correction=0), torch.ones(3, dtype=torch.float64))


def test_a_constant_channel_is_not_divided_by_zero() -> None:
    x = np.full((3, 1, 2, 2), 7, np.uint8)
    assert torch.isfinite(
        scale_for("standard", x.shape[1], lambda: Moments.of(x))(torch.from_numpy(x), torch.float32)
    ).all()


def test_reference_scale_is_imagenets() -> None:
    white = torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)
    expected = [(1 - 0.485) / 0.229, (1 - 0.456) / 0.224, (1 - 0.406) / 0.225]
    assert reference_scale(3)(white, torch.float64).flatten().tolist() == pytest.approx(expected)


def test_every_image_counts() -> None:
    x = np.zeros((40_000, 1, 1, 1), np.uint8)
    x[1::2] = 255
    found = scale_for("standard", x.shape[1], lambda: Moments.of(x))
    assert (found.mean[0], found.std[0]) == pytest.approx((0.5, 0.5))


def test_a_scale_can_be_undone() -> None:
    x = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(reference_scale(3).undone(reference_scale(3)(x, torch.float64)), x)
    assert Scale().undone(x) is x


def test_a_difference_is_as_large_as_the_network_sees_it() -> None:
    x, size = torch.rand(2, 3, 4, 4, dtype=torch.float64), 0.02
    for scale in (Scale(), reference_scale(3), Scale((0.5,) * 4, (0.1, 0.2, 0.3, 0.4), vector=True)):
        own = x[0, 0] if scale.vector else x
        moved = scale(own + size, torch.float64) - scale(own, torch.float64)
        torch.testing.assert_close(scale.difference(size, own) * torch.ones_like(own), moved)


def test_published_constants_are_for_colour_images() -> None:
    assert scale_for("imagenet", 3) == reference_scale(3)
    assert scale_for("cifar", 3)(
        torch.full((1, 3, 1, 1), 255, dtype=torch.uint8), torch.float64
    ).flatten().tolist() == (pytest.approx([(255 - 125.3) / 63.0, (255 - 123.0) / 62.1, (255 - 113.9) / 66.7]))
    with pytest.raises(GradcastError, match="'cifar' is for colour images"):
        scale_for("cifar", 1)


def test_the_shape_that_the_trained_layers_see() -> None:
    assert Scale().seen((3, 8, 8)) == (3, 8, 8)
    assert Scale(frozen=torch.nn.Conv2d(3, 5, 3).double()).seen((3, 8, 8)) == (5, 6, 6)
    assert Scale(frozen=torch.nn.Flatten()).seen((3, 8, 8)) == (192,)
    assert Scale(frozen=torch.nn.Linear(4, 2), vector=True).seen((4,)) == (2,)
