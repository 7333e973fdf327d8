from pathlib import Path

import pytest

from gradcast.data import pool_images as pools
from gradcast.errors import GradcastError
from tests.data.images import fill


def test_any_images(tmp_path: Path) -> None:
    with pytest.raises(GradcastError, match="holds no image files"):
        pools.any_images(tmp_path)
    fill(tmp_path / "a" / "b", 3)
    assert len(pools.any_images(tmp_path)) == 3


def test_cub_uses_its_training_split(tmp_path: Path) -> None:
    fill(tmp_path / "images" / "001.Albatross", 4, suffix=".jpg")
    assert len(pools.cub(tmp_path)) == 4
    names = [f"001.Albatross/{i:03d}.jpg" for i in range(4)]
    (tmp_path / "images.txt").write_text("".join(f"{i + 1} {name}\n" for i, name in enumerate(names)))
    (tmp_path / "train_test_split.txt").write_text("1 1\n2 0\n3 1\n4 0\n")
    assert pools.cub(tmp_path).names == ("images/001.Albatross/000.jpg", "images/001.Albatross/002.jpg")
    (tmp_path / "images.txt").write_text("1 elsewhere/x.jpg\n")
    with pytest.raises(GradcastError, match=r"none of the images that .* names is there"):
        pools.cub(tmp_path)


def test_aircraft_uses_its_training_list(tmp_path: Path) -> None:
    fill(tmp_path / "data" / "images", 3, suffix=".jpg")
    assert len(pools.aircraft(tmp_path)) == 3
    (tmp_path / "data" / "images_train.txt").write_text("000\n002\n")
    assert pools.aircraft(tmp_path).names == ("data/images/000.jpg", "data/images/002.jpg")
