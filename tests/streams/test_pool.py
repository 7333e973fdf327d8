from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gradcast.errors import GradcastError
from gradcast.streams.pool import Pool, fit, folder, patches
from tests.helpers import CPU


def untracked(paths: object, what: str) -> object:
    return paths


def test_patches_are_seeded_and_fit_the_stream() -> None:
    grey, colour = patches((1, 8, 8), count=20, data_seed=0), patches((3, 32, 32), count=5, data_seed=0)
    assert grey.shape == (20, 1, 8, 8)
    assert colour.shape == (5, 3, 32, 32)
    assert np.array_equal(grey, patches((1, 8, 8), count=20, data_seed=0))
    assert not np.array_equal(grey, patches((1, 8, 8), count=20, data_seed=1))
    assert grey.std() > 10


def test_scales() -> None:
    x = np.array([0, 255], np.uint8).reshape(2, 1, 1, 1)
    index = np.array([[0, 1]])
    labelled = Pool(x, scale="labelled", device=CPU, dtype=torch.float64).images(index)
    reference = Pool(x, scale="reference", device=CPU, dtype=torch.float64).images(index)
    assert labelled.flatten().tolist() == [0, 1]
    assert reference.flatten().tolist() == [-1, 1]
    colour = Pool(np.full((1, 3, 1, 1), 255, np.uint8), scale="reference", device=CPU, dtype=torch.float64)
    expected = [(1 - 0.485) / 0.229, (1 - 0.456) / 0.224, (1 - 0.406) / 0.225]
    assert colour.images(np.array([[0]])).flatten().tolist() == pytest.approx(expected)


def test_fit_cuts_to_the_middle_and_converts() -> None:
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    assert (fit(Image.fromarray(wide), (3, 10, 10)) == 200).all()
    assert fit(Image.fromarray(wide), (1, 5, 5)).shape == (1, 5, 5)
    palette = Image.fromarray(wide).convert("P")
    assert fit(palette, (3, 4, 4)).shape == (3, 4, 4)


def test_folder_reads_nested_images_and_skips_bad_ones_by_name(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    Image.new("RGB", (20, 20), (255, 0, 0)).save(tmp_path / "b.png")
    Image.new("L", (20, 20), 7).save(tmp_path / "deep" / "er" / "a.jpg")
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG but no more")
    whole = (tmp_path / "b.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="skipped") as warned:
        x = folder((3, 8, 8), tmp_path, limit=None, track=untracked)  # type: ignore[arg-type]
    assert x.shape == (2, 3, 8, 8)
    named = [str(warning.message) for warning in warned]
    assert len(named) == 2
    assert str(tmp_path / "broken.png") in named[0]
    assert str(tmp_path / "cut.png") in named[1]


def test_limit_takes_the_first(tmp_path: Path) -> None:
    for number in range(5):
        Image.new("L", (4, 4), number).save(tmp_path / f"{number}.png")
    assert folder((1, 4, 4), tmp_path, limit=3, track=untracked)[:, 0, 0, 0].tolist() == [0, 1, 2]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("files", "message"), [([], "holds no image files"), (["bad.png"], "none of the 1 image files")]
)
@pytest.mark.filterwarnings("ignore:skipped")
def test_nothing_left(tmp_path: Path, files: list[str], message: str) -> None:
    for name in files:
        (tmp_path / name).write_text("no image")
    with pytest.raises(GradcastError, match=message):
        folder((1, 8, 8), tmp_path, limit=None, track=untracked)  # type: ignore[arg-type]


def test_an_image_that_claims_too_many_pixels_is_skipped(tmp_path: Path) -> None:
    header = b"P5 100000 100000 255\n"
    (tmp_path / "huge.pgm").write_bytes(header + b"\0" * 100)
    Image.new("L", (4, 4)).save(tmp_path / "ok.png")
    with pytest.warns(UserWarning, match=r"huge\.pgm"):
        assert len(folder((1, 4, 4), tmp_path, limit=None, track=untracked)) == 1  # type: ignore[arg-type]


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match="does not exist"):
        folder((1, 8, 8), tmp_path / "nowhere", limit=None, track=untracked)  # type: ignore[arg-type]
