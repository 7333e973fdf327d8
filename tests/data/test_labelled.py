from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradcast.data.cache import Cache
from gradcast.data.files import image_files
from gradcast.data.labelled import LabelledFiles, cached_pool, cached_source, own_shape
from gradcast.data.load import untracked
from gradcast.errors import GradcastError
from tests.data.images import fill


def labelled(root: Path) -> LabelledFiles:
    train, test = (image_files(root / part) for part in ("train", "test"))
    return LabelledFiles("own", train, [0, 0, 1, 1], test, [0, 1], ("cat", "dog"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    fill(tmp_path / "train", 4)
    fill(tmp_path / "test", 2, start=10)
    return tmp_path


def test_the_second_start_reads_no_image_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(root / "cache")
    first = cached_source(labelled(root), (3, 12, 12), cache, track=untracked)
    pool = cached_pool("p", image_files(root / "train"), (1, 8, 8), cache, squash=False, track=untracked)
    expected = np.asarray(Image.open(root / "train" / "002.png")).transpose(2, 0, 1)
    assert np.array_equal(first.train.x[2], expected)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an image file was opened")

    monkeypatch.setattr(Image, "open", refuse)
    second = cached_source(labelled(root), (3, 12, 12), cache, track=untracked)
    assert np.array_equal(first.test.x, second.test.x)
    assert second.train.y.tolist() == [0, 0, 1, 1]
    again = cached_pool("p", image_files(root / "train"), (1, 8, 8), cache, squash=False, track=untracked)
    assert np.array_equal(pool, again)


def test_other_options_are_other_entries(root: Path) -> None:
    cache, files = Cache(root / "cache"), image_files(root / "train")
    for shape, squash in (((3, 8, 8), False), ((3, 8, 8), True), ((1, 8, 8), False)):
        assert cached_pool("p", files, shape, cache, squash=squash, track=untracked).shape == (4, *shape)  # type: ignore[arg-type]
    assert len(cache.entries()) == 3


def test_unreadable_images_are_left_out_with_their_labels(root: Path) -> None:
    (root / "train" / "001.png").write_text("no image")
    with pytest.warns(UserWarning, match=r"skipped .*001\.png"):
        source = cached_source(labelled(root), (3, 12, 12), Cache(root / "cache"), track=untracked)
    assert source.train.y.tolist() == [0, 1, 1]
    with pytest.warns(UserWarning, match=r"skipped .*001\.png"):  # and again when it comes from the cache
        cached_source(labelled(root), (3, 12, 12), Cache(root / "cache"), track=untracked)
    assert np.array_equal(source.train.x[1], np.asarray(Image.open(root / "train" / "002.png")).transpose(2, 0, 1))


@pytest.mark.filterwarnings("ignore:skipped")
def test_nothing_left_is_an_error_and_no_half_cache(root: Path) -> None:
    for path in (root / "train").iterdir():
        path.write_text("no image")
    with pytest.raises(GradcastError, match="none of the 4 image files"):
        cached_pool("p", image_files(root / "train"), (3, 8, 8), Cache(root / "cache"), squash=False, track=untracked)
    assert list((root / "cache").iterdir()) == []


def test_many_bad_files_are_counted(root: Path) -> None:
    for number in range(8):
        (root / "train" / f"bad{number}.png").write_text("no")
    with pytest.warns(UserWarning, match="skipped") as warned:
        cached_pool("p", image_files(root / "train"), (3, 8, 8), Cache(root / "cache"), squash=False, track=untracked)
    assert len(warned) == 6
    assert "skipped 3 more unreadable images" in str(warned[-1].message)


@pytest.mark.parametrize(
    ("train_y", "test_y", "part"), [([0, 0, 0, 0], [0, 1], "training"), ([0, 0, 1, 1], [0, 0], "test")]
)
def test_a_class_without_images_is_named(root: Path, train_y: list[int], test_y: list[int], part: str) -> None:
    train, test = (image_files(root / p) for p in ("train", "test"))
    with pytest.raises(GradcastError, match=f"class 'dog' of own has no readable {part} image"):
        LabelledFiles("own", train, train_y, test, test_y, ("cat", "dog"))


@pytest.mark.filterwarnings("ignore:skipped")
def test_a_class_whose_images_are_all_unreadable_is_named(root: Path) -> None:
    (root / "test" / "011.png").write_text("no image")
    with pytest.raises(GradcastError, match="class 'dog' of own has no readable test image"):
        cached_source(labelled(root), (3, 12, 12), Cache(root / "cache"), track=untracked)


def test_headers_are_looked_at_once_and_only_where_something_is_open(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(root / "cache")
    assert own_shape(labelled(root), cache, colour="own", size=None, track=untracked) == (3, 12, 12)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an image file was opened")

    monkeypatch.setattr(Image, "open", refuse)
    assert own_shape(labelled(root), cache, colour="own", size=None, track=untracked) == (3, 12, 12)
    fresh = Cache(root / "fresh")
    assert own_shape(labelled(root), fresh, colour="grey", size=9, track=untracked) == (1, 9, 9)


def test_sizes_of_test_images_count_too(root: Path) -> None:
    fill(root / "test", 1, size=(20, 20), start=11)
    with pytest.raises(GradcastError, match="differ in size"):
        own_shape(labelled(root), Cache(root / "cache"), colour="own", size=None, track=untracked)
