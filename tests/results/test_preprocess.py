from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gradcast.errors import GradcastError
from gradcast.results.preprocess import AnyImages, Preprocess
from gradcast.streams.scale import Scale
from gradcast.streams.scenarios import rotation

GREY = Preprocess((1, 8, 8), Scale())
COLOUR = Preprocess((3, 8, 8), Scale((0.5, 0.4, 0.3), (0.2, 0.2, 0.1)))
BYTES = np.random.default_rng(0).integers(0, 256, (5, 8, 8), dtype=np.uint8)


@pytest.mark.parametrize(
    ("images", "count"),
    [
        (BYTES[0], 1),
        (BYTES, 5),
        (BYTES[:, None], 5),
        (BYTES[..., None], 5),
        (BYTES[:1], 1),
        (torch.from_numpy(BYTES[0]), 1),
        (torch.rand(3, 20, 30), 1),
        (np.zeros((20, 30, 3), dtype=np.uint8), 1),
        (np.zeros((4, 20, 30, 3), dtype=np.float32), 4),
        (Image.fromarray(BYTES[0]), 1),
        (Image.new("RGBA", (30, 20)), 1),
        (Image.new("I;16", (30, 20)), 1),
        ([Image.new("L", (9, 9)), Image.new("RGB", (30, 20))], 2),
        ([BYTES[0], torch.rand(3, 20, 30)], 2),
    ],
)
@pytest.mark.parametrize("preprocess", [GREY, COLOUR])
def test_images_of_any_kind_become_what_the_network_takes(
    preprocess: Preprocess, images: AnyImages, count: int
) -> None:
    found = preprocess(images)
    assert found.shape == (count, *preprocess.shape)
    assert found.dtype == torch.float32


def test_bytes_numbers_and_pillow_images_give_the_same() -> None:
    expected = torch.from_numpy(BYTES[:1, None]) / 255
    for images in (BYTES[0], BYTES[0] / 255, torch.from_numpy(BYTES[0]) / 255, Image.fromarray(BYTES[0])):
        torch.testing.assert_close(GREY(images), expected)


def test_the_scale_is_that_of_training() -> None:
    found = COLOUR(np.full((8, 8, 3), 255, dtype=np.uint8))[0, :, 0, 0]
    torch.testing.assert_close(found, torch.tensor([2.5, 3.0, 7.0]))


def test_pixels_move_as_in_the_task() -> None:
    turned = Preprocess((1, 8, 8), Scale(), [rotation((1, 8, 8), angle) for angle in (0.0, 90.0)])
    assert torch.equal(turned(BYTES, 0), GREY(BYTES))
    assert torch.equal(turned(BYTES, 1), GREY(BYTES).rot90(1, (2, 3)))
    assert torch.equal(turned(BYTES), GREY(BYTES))
    assert torch.equal(GREY(BYTES, 7), GREY(BYTES))  # tasks of a split stream leave pixels where they are
    with pytest.raises(GradcastError, match="there is no task 2; tasks are 0 to 1"):
        turned(BYTES, 2)


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        ([], "the list of images is empty"),
        (np.zeros(4), r"array of images has shape \(4,\)"),
        (np.zeros((2, 4, 8, 8)), "one channel or three"),
        (np.full((8, 8), 7.5), "outside 0 to 1; give bytes"),
        (np.zeros((0, 8, 8), dtype=np.uint8), "is empty; give at least one image"),
        (7, "a int is no image; give the path of an image file"),
    ],
)
def test_what_is_no_image_is_explained(images: object, sentence: str) -> None:
    with pytest.raises(GradcastError, match=sentence):
        GREY._bytes(images)


def test_files_are_opened(tmp_path: Path) -> None:
    file = tmp_path / "image.png"
    Image.fromarray(BYTES[0]).save(file)
    for given in (file, str(file), [file]):
        assert torch.equal(GREY(given), GREY(BYTES[0]))
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(GradcastError, match=r"text.png cannot be read as an image \(no image of a known format\)"):
        GREY(tmp_path / "text.png")
    with pytest.raises(GradcastError, match=r"missing.png cannot be read as an image"):
        GREY(str(tmp_path / "missing.png"))
