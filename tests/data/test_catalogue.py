import re
from pathlib import Path

import pytest

from gradcast.data.catalogue import CATALOGUE
from tests.data.images import fill, tiny_imagenet


def test_every_entry_can_be_read_one_way_or_another() -> None:
    for name, dataset in CATALOGUE.items():
        assert dataset.name == name
        assert dataset.labelled or dataset.pool is not None
        assert dataset.licence
        assert dataset.home.startswith("http")
        assert dataset.find(Path("/nonexistent")) == []


def test_downloads_name_plain_files_and_real_checksums() -> None:
    for dataset in CATALOGUE.values():
        for item in dataset.downloads:
            assert item.url.startswith("https://")
            assert "/" not in item.file
            assert 4_000 < item.size < 4 << 30
            assert re.fullmatch(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", item.checksum)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("coco", "coco"),
        ("coco", "train2017"),
        ("cub", "CUB_200_2011"),
        ("cub", "cub"),
        ("aircraft", "aircraft"),
        ("cars", "cars_train"),
    ],
)
def test_collections_are_found_under_their_usual_names(tmp_path: Path, name: str, place: str) -> None:
    fill(tmp_path / place / "images", 2)
    assert CATALOGUE[name].find(tmp_path) == [tmp_path / place]
    pool = CATALOGUE[name].pool
    assert pool is not None
    assert len(pool(tmp_path / place)) == 2


def test_mini_imagenet_as_folders(tmp_path: Path) -> None:
    for label in ("n1", "n2"):
        fill(tmp_path / "mini-imagenet" / label, 5, suffix=".jpg")
    dataset = CATALOGUE["mini-imagenet"]
    assert dataset.find(tmp_path) == [tmp_path / "mini-imagenet"]
    assert dataset.files is not None
    assert dataset.files(tmp_path / "mini-imagenet").classes == ("n1", "n2")


def test_tiny_imagenet_serves_as_both(tmp_path: Path) -> None:
    base = tiny_imagenet(tmp_path)
    dataset = CATALOGUE["tiny-imagenet"]
    assert dataset.find(tmp_path) == [base]
    assert dataset.files is not None
    assert dataset.pool is not None
    assert len(dataset.files(base).train) == len(dataset.pool(base)) == 12


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_the_size_of_every_pool_is_known_and_agrees_with_its_title(name: str) -> None:
    dataset = CATALOGUE[name]
    assert dataset.pool_size is not None
    if dataset.expected is None:
        assert f"{dataset.pool_size:,}" in dataset.title
    else:
        assert dataset.pool_size == dataset.expected[0]
