import numpy as np
import pytest
from PIL import Image

from gradcast.data.images import Images, Source, convert, move_pixels
from gradcast.errors import GradcastError


def test_labels_and_images_must_match() -> None:
    with pytest.raises(GradcastError, match="3 images but 2 labels"):
        Images(np.zeros((3, 1, 2, 2), np.uint8), np.zeros(2, np.int64))


def test_move_pixels() -> None:
    x = np.array([[[[10, 20], [30, 40]]]], np.uint8)
    assert move_pixels(x, np.array([3, -1, 0, 0])).tolist() == [[[[40, 0], [10, 10]]]]
    assert move_pixels(x, None) is x
    assert x.tolist() == [[[[10, 20], [30, 40]]]]


def test_moved_images_lie_one_after_another() -> None:
    """Evaluations read them a chunk at a time; columns of all images would take half of that time."""
    moved = move_pixels(np.zeros((50, 1, 4, 4), np.uint8), np.arange(16)[::-1].copy())
    assert moved.flags.c_contiguous


def source(train: np.ndarray, test: np.ndarray, classes: int = 2) -> Source:
    return Source("mine", *(Images(x, np.arange(len(x)) % 2) for x in (train, test)), tuple("abc"[:classes]))


def test_grey_is_pillows_and_colour_repeats() -> None:
    x = np.random.default_rng(0).integers(0, 256, (5, 3, 6, 7), dtype=np.uint8)
    grey = convert(x, (1, 6, 7))
    for image, plane in zip(x, grey, strict=True):
        assert np.array_equal(plane[0], np.asarray(Image.fromarray(image.transpose(1, 2, 0)).convert("L")))
    assert np.array_equal(convert(grey, (3, 6, 7)), np.repeat(grey, 3, axis=1))


def test_resizing_is_close_to_pillows() -> None:
    x = np.random.default_rng(0).integers(0, 256, (2, 1, 28, 28), dtype=np.uint8)
    for size in (14, 32):
        found = convert(x, (1, size, size))
        expected = [np.asarray(Image.fromarray(i[0]).resize((size, size), Image.Resampling.BILINEAR)) for i in x]
        assert np.abs(found[:, 0].astype(int) - np.stack(expected)).max() <= 1


def test_a_source_converts_both_parts() -> None:
    x = np.zeros((4, 3, 6, 6), np.uint8)
    made = source(x, x)
    assert made.converted("own", None) is made
    assert made.converted("grey", 5).shape == (1, 5, 5)
    assert made.converted("grey", 5).test.x.shape == (4, 1, 5, 5)


def test_a_source_must_fit_together() -> None:
    x = np.zeros((4, 1, 6, 6), np.uint8)
    with pytest.raises(GradcastError, match="mine has no test images"):
        source(x, x[:0])
    with pytest.raises(GradcastError, match="labels from 0 to 1 but 1 classes; labels must lie between 0 and 0"):
        source(x, x, classes=1)
    with pytest.raises(GradcastError, match="both must be the same"):
        source(x, np.zeros((4, 1, 5, 5), np.uint8))


def test_other_proportions_are_cut_to_the_middle_or_squashed() -> None:
    x = np.zeros((1, 1, 8, 24), np.uint8)
    x[..., 8:16] = 255
    assert (convert(x, (1, 8, 8)) == 255).all()
    assert convert(x, (1, 8, 8), squash=True).min() == 0
    assert convert(x.transpose(0, 1, 3, 2), (1, 8, 8)).min() == 255
