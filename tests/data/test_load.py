import time
from pathlib import Path

import numpy as np
import pytest

from gradcast.data.cache import Cache
from gradcast.data.images import Source
from gradcast.data.load import Shelf, default_data, load_folder, load_pool, load_source, untracked
from gradcast.errors import GradcastError
from tests.data.images import fill, tiny_imagenet, zipped


def shelf(data: Path, cache: Path | None = None) -> Shelf:
    return Shelf(data, Cache(cache or data / "cache"), untracked)


def source(name: str, place: Shelf, path: str = "", size: int | None = None, colour: str = "own") -> Source:
    return load_source(name, place, path=path, size=size, colour=colour, data_seed=0)  # type: ignore[arg-type]


def test_missing_datasets_say_where_they_come_from(tmp_path: Path) -> None:
    with pytest.raises(
        GradcastError, match=r"mnist is not in .*yann\.lecun\.com.*idx.*gradcast data fetch mnist.*--data DIR"
    ):
        source("mnist", shelf(tmp_path))
    with pytest.raises(GradcastError, match=r"coco is not in .*fetch it by hand"):
        load_pool("coco", (3, 8, 8), shelf(tmp_path), squash=False, data_seed=0)


def test_paths_are_looked_up_in_the_data_folder_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "data" / "photos", 2)
    fill(tmp_path / "photos", 3)
    fill(tmp_path / "elsewhere", 4)
    monkeypatch.chdir(tmp_path)
    place = shelf(tmp_path / "data")
    assert len(load_folder("photos", (3, 8, 8), place, squash=False)) == 2
    assert len(load_folder("elsewhere", (3, 8, 8), place, squash=False)) == 4
    assert len(load_folder(str(tmp_path / "photos"), (3, 8, 8), place, squash=False)) == 3
    with pytest.raises(GradcastError, match=r"neither .*nowhere nor nowhere exists"):
        load_folder("nowhere", (3, 8, 8), place, squash=False)


def test_own_folders_and_npz(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        fill(tmp_path / "pets" / "train" / label, 4, size=(10, 10))
        fill(tmp_path / "pets" / "test" / label, 2, size=(10, 10))
    pets = source("folder", shelf(tmp_path), "pets")
    assert (pets.shape, pets.classes, len(pets.train), len(pets.test)) == ((3, 10, 10), ("cat", "dog"), 8, 4)
    assert source("folder", shelf(tmp_path), "pets", size=6, colour="grey").shape == (1, 6, 6)
    x = np.random.default_rng(0).integers(0, 256, (6, 9, 9), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", x_train=x, y_train=np.arange(6) % 3, x_test=x, y_test=np.arange(6) % 3)
    assert source("npz", shelf(tmp_path), "own.npz").shape == (1, 9, 9)


@pytest.mark.parametrize("as_zip", [False, True])
def test_a_pool_of_files_in_folder_or_archive(tmp_path: Path, as_zip: bool) -> None:
    base = tiny_imagenet(tmp_path)
    if as_zip:
        zipped(base, tmp_path / "tiny-imagenet-200.zip")
        base.rename(tmp_path / "aside")
    x = load_pool("tiny-imagenet", (3, 64, 64), shelf(tmp_path), squash=False, data_seed=0)
    assert (len(x), x.shape) == (12, (3, 64, 64))
    assert source("tiny-imagenet", shelf(tmp_path)).test.x.shape == (6, 3, 64, 64)


def test_a_labelled_dataset_as_a_pool_ignores_labels(tmp_path: Path) -> None:
    x = load_pool("digits", (3, 16, 16), shelf(tmp_path), squash=False, data_seed=0)
    assert (len(x), x.shape) == (1297, (3, 16, 16))


@pytest.mark.data
def test_real_cifar_is_parsed_once_and_mapped_afterwards(data: Path, tmp_path: Path) -> None:
    first = source("cifar-100", shelf(data, tmp_path))
    start = time.perf_counter()
    second = source("cifar-100", shelf(data, tmp_path))
    assert time.perf_counter() - start < 5  # a generous bound: mapping is milliseconds, parsing is a second
    assert isinstance(second.train.x, np.memmap)
    assert np.array_equal(first.test.x[::100], second.test.x[::100])
    assert second.classes[0] == "apple"


@pytest.mark.data
def test_real_pools(data: Path, tmp_path: Path) -> None:
    for name in ("coco", "cub", "cars"):
        if (data / name).is_dir():
            x = load_pool(name, (3, 32, 32), shelf(data, tmp_path), squash=True, data_seed=0)
            assert x.shape == (3, 32, 32)
            assert len(x) >= 1000
            assert 60 < x.take(np.arange(1000)).mean() < 190


def test_a_labelled_collection_of_mixed_sizes_is_a_pool(tmp_path: Path) -> None:
    for number, label in enumerate(("n1", "n2")):
        fill(tmp_path / "mini-imagenet" / label, 7, size=(10 + 5 * number, 12))
    x = load_pool("mini-imagenet", (3, 8, 8), shelf(tmp_path), squash=False, data_seed=0)
    assert (len(x), x.shape) == (12, (3, 8, 8))


def test_the_default_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRADCAST_DATA", str(tmp_path))
    assert default_data() == tmp_path
    monkeypatch.delenv("GRADCAST_DATA")
    assert default_data() == Path("data")
