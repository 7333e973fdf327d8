import math

import numpy as np
import pytest
import torch
from PIL import Image

from gradcast.streams.augment import (
    AUGMENTATIONS,
    augment,
    crop,
    cutout,
    flip,
    grey,
    jitter,
    padded_crop,
    quarter_turns,
    resize,
    resized_crop,
    rotate,
    some_grey,
    some_jitter,
    tilt,
)


def pictures(count: int = 4, channels: int = 3, height: int = 8, width: int = 8) -> torch.Tensor:
    return torch.rand(count, channels, height, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def numbers(*values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_flip_follows_its_number() -> None:
    x = pictures(2)
    found = flip(x, numbers([0.4], [0.6]))
    assert torch.equal(found[0], x[0].flip(-1))
    assert torch.equal(found[1], x[1])


def test_quarter_turns_are_rot90() -> None:
    x = pictures(4)
    found = quarter_turns(x, torch.tensor([0, 1, 2, 3]))
    for k in range(4):
        assert torch.equal(found[k], torch.rot90(x[k], k, (1, 2)))
    assert torch.equal(rotate(x, numbers([0.0], [0.3], [0.6], [0.99])), found)


def test_tilt_turns_around_the_middle_by_its_angle() -> None:
    x = pictures(3, height=7, width=7)
    found = tilt(x, numbers([1.0], [0.5], [0.0]), degrees=90)
    torch.testing.assert_close(found, torch.stack([torch.rot90(x[0], 1, (1, 2)), x[1], torch.rot90(x[2], -1, (1, 2))]))


def test_tilt_agrees_with_pillow_and_leaves_corners_black() -> None:
    plane = resize(pictures(1, 1, 5, 5), 24, 24)  # smooth, so that interpolations agree
    found = tilt(plane, numbers([5 / 6]))[0, 0]  # 30 of up to 45 degrees
    image = Image.fromarray(plane[0, 0].float().numpy())
    expected = torch.from_numpy(np.array(image.rotate(30, Image.Resampling.BILINEAR))).double()
    torch.testing.assert_close(found[6:18, 6:18], expected[6:18, 6:18], atol=1e-4, rtol=0)
    assert not tilt(torch.ones_like(plane), numbers([1.0]))[0, 0, 0, 0]


def test_crop_takes_the_window_its_numbers_say() -> None:
    x = pictures(3, height=9, width=7)
    found = crop(x, numbers([0.0, 0.0], [0.999, 0.999], [0.5, 0.25]), height=6, width=4)
    assert torch.equal(found[0], x[0, :, :6, :4])
    assert torch.equal(found[1], x[1, :, 3:, 3:])
    assert torch.equal(found[2], x[2, :, 2:8, 1:5])


def test_every_window_is_equally_likely() -> None:
    x = torch.arange(25.0).view(1, 1, 5, 5).expand(20_000, 1, 5, 5)
    corners = crop(x, torch.rand(20_000, 2, generator=torch.Generator().manual_seed(0)), height=4, width=4)[:, 0, 0, 0]
    shares = torch.stack([(corners == value).float().mean() for value in (0, 1, 5, 6)])
    assert (shares - 0.25).abs().max() < 0.02


def test_padded_crop_shifts_with_a_black_border() -> None:
    x = pictures(2, height=6, width=5)
    found = padded_crop(x, numbers([0.0, 0.0], [0.5, 0.5]), padding=2)
    assert torch.equal(found[0, :, 2:, 2:], x[0, :, :4, :3])
    assert not found[0, :, :2].any()
    assert torch.equal(found[1], x[1])  # the middle of five places is no shift


def test_resize_is_close_to_pillows_bilinear() -> None:
    plane = pictures(1, 1, 60, 60)
    found = resize(plane, 28, 28)[0, 0]
    expected = Image.fromarray(plane[0, 0].float().numpy()).resize((28, 28), Image.Resampling.BILINEAR)
    torch.testing.assert_close(found.float(), torch.from_numpy(np.array(expected)), atol=1e-4, rtol=0)


def test_jitter_by_hand() -> None:
    x = torch.tensor([0.2, 0.4, 0.6], dtype=torch.float64).view(1, 3, 1, 1)
    brighter = jitter(x, numbers([1.0, 0.5, 0.5]), brightness=0.5, contrast=0.5)
    assert brighter.flatten().tolist() == pytest.approx([0.3, 0.6, 0.9])
    luma = 0.299 * 0.2 + 0.587 * 0.4 + 0.114 * 0.6
    flatter = jitter(x, numbers([0.5, 0.0, 0.5]), brightness=0.5, contrast=0.5)
    assert flatter.flatten().tolist() == pytest.approx([luma + 0.5 * (v - luma) for v in (0.2, 0.4, 0.6)])
    colourless = jitter(x, numbers([0.5, 0.5, 0.0]), brightness=0.0, contrast=0.0, saturation=1.0)
    assert colourless.flatten().tolist() == pytest.approx([luma] * 3)
    assert torch.equal(jitter(x, numbers([0.5, 0.5, 0.5]), brightness=0.4, contrast=0.4, saturation=0.4), x)


def test_grey_of_grey_is_itself() -> None:
    x = pictures(2, channels=1)
    assert grey(x) is x


def test_resized_crop_of_everything_is_the_image() -> None:
    x = pictures(2)
    found = resized_crop(x, numbers([1.0, 0.5, 0.3, 0.8], [1.0, 0.5, 0.0, 0.0]))
    torch.testing.assert_close(found, x)


def test_resized_crop_of_a_quarter_is_that_quarter_enlarged() -> None:
    x = pictures(1, height=8, width=8)
    found = resized_crop(x, numbers([0.0, 0.5, 0.0, 0.0]), smallest=0.25)
    corner = torch.nn.functional.interpolate(x[:, :, :4, :4], (8, 8), mode="bilinear", align_corners=False)
    torch.testing.assert_close(found[:, :, 1:6, 1:6], corner[:, :, 1:6, 1:6])  # away from the edge they are the same
    assert math.isclose(float(found.min()), float(found.min().clamp(0, 1)))


def test_cutout_greys_a_square_around_its_pixel_and_what_lies_beyond_the_border_is_cut_off() -> None:
    x = pictures(2)[..., :8, :6]
    found = cutout(x, numbers([0.5, 0.5], [0.99, 0.0]), share=0.5)
    changed = torch.zeros(2, 3, 8, 6, dtype=torch.bool)
    changed[0, :, 3:6, 2:5] = True  # around row 4 and column 3
    changed[1, :, 6:, :2] = True  # around row 7 and column 0
    assert torch.equal(found == 0.5, changed)
    assert torch.equal(found[~changed], x[~changed])


@pytest.mark.parametrize("name", AUGMENTATIONS)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_named_augmentation_keeps_shape_and_range_and_grouping(name: str, channels: int) -> None:
    x = pictures(6, channels, 10, 10).view(2, 3, channels, 10, 10)
    step = [AUGMENTATIONS[name]]
    together = augment(x, step, [torch.Generator().manual_seed(seed) for seed in (1, 2)])
    alone = augment(x[1:], step, [torch.Generator().manual_seed(2)])
    assert together.shape == x.shape
    assert together.min() >= 0
    assert together.max() <= 1
    torch.testing.assert_close(together[1:], alone)
    assert torch.equal(together, x) == (name == "greyscale" and channels == 1)


def test_some_images_lose_their_colour_and_some_change_it() -> None:
    x = pictures(3)
    found = some_grey(x, numbers([0.1], [0.2], [0.9]), probability=0.2)
    assert torch.equal(found[0], grey(x)[0].expand(3, -1, -1))
    assert torch.equal(found[1:], x[1:])
    u = numbers([0.7, 0.9, 0.2, 0.6], [0.8, 0.9, 0.2, 0.6], [0.1, 0.5, 0.5, 0.5])
    changed = some_jitter(x, u, probability=0.8, strength=0.4)
    assert torch.equal(changed[0], jitter(x, u[:, 1:], brightness=0.4, contrast=0.4, saturation=0.4)[0])
    assert torch.equal(changed[1], x[1])
    torch.testing.assert_close(changed[2], x[2])  # numbers in the middle change nothing
    assert [AUGMENTATIONS[name].numbers for name in ("colour-jitter", "greyscale")] == [4, 1]
