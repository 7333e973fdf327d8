from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradcast.data import cache
from gradcast.data.cache import Cache
from gradcast.data.cached_source import cached_arrays, cached_files, own_shape
from gradcast.data.images import Images, Moments, Source, fingerprint
from gradcast.data.labelled import LabelledFiles
from gradcast.data.load import untracked
from gradcast.data.scan import image_files
from gradcast.errors import GradcastError
from tests.data.images import fill


@dataclass
class Disk:
    """What is left on a disk."""

    free: int


def labelled(root: Path) -> LabelledFiles:
    train, test = (image_files(root / part) for part in ("train", "test"))
    return LabelledFiles("own", train, [0, 0, 1, 1], test, [0, 1], ("cat", "dog"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    fill(tmp_path / "train", 4)
    fill(tmp_path / "test", 2, start=10)
    return tmp_path


def test_the_second_start_reads_no_image_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Cache(root / "cache")
    first = cached_files(labelled(root), (3, 12, 12), kept, track=untracked)
    expected = np.asarray(Image.open(root / "train" / "002.png")).transpose(2, 0, 1)
    assert np.array_equal(first.train.x[2], expected)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an image file was opened")

    monkeypatch.setattr(Image, "open", refuse)
    second = cached_files(labelled(root), (3, 12, 12), kept, track=untracked)
    assert np.array_equal(first.test.x, second.test.x)
    assert second.train.y.tolist() == [0, 0, 1, 1]
    assert second.content == fingerprint(first.train.x, first.train.y, first.test.x, first.test.y)
    assert second.moments == Moments.of(first.train.x)


def test_unreadable_images_are_left_out_with_their_labels(root: Path) -> None:
    (root / "train" / "001.png").write_text("no image")
    with pytest.warns(UserWarning, match=r"skipped .*001\.png"):
        source = cached_files(labelled(root), (3, 12, 12), Cache(root / "cache"), track=untracked)
    assert source.train.y.tolist() == [0, 1, 1]
    with pytest.warns(UserWarning, match=r"skipped .*001\.png"):  # and again when it comes from the cache
        cached_files(labelled(root), (3, 12, 12), Cache(root / "cache"), track=untracked)
    assert np.array_equal(source.train.x[1], np.asarray(Image.open(root / "train" / "002.png")).transpose(2, 0, 1))


@pytest.mark.filterwarnings("ignore:skipped")
def test_a_class_whose_images_are_all_unreadable_is_named(root: Path) -> None:
    (root / "test" / "011.png").write_text("no image")
    with pytest.raises(GradcastError, match="class 'dog' of own has no readable test image"):
        cached_files(labelled(root), (3, 12, 12), Cache(root / "cache"), track=untracked)


def test_headers_are_looked_at_once_and_only_where_something_is_open(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Cache(root / "cache")
    assert own_shape(labelled(root), kept, colour="own", size=None, track=untracked) == (3, 12, 12)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an image file was opened")

    monkeypatch.setattr(Image, "open", refuse)
    assert own_shape(labelled(root), kept, colour="own", size=None, track=untracked) == (3, 12, 12)
    fresh = Cache(root / "fresh")
    assert own_shape(labelled(root), fresh, colour="grey", size=9, track=untracked) == (1, 9, 9)


def test_sizes_of_test_images_count_too(root: Path) -> None:
    fill(root / "test", 1, size=(20, 20), start=11)
    with pytest.raises(GradcastError, match="differ in size"):
        own_shape(labelled(root), Cache(root / "cache"), colour="own", size=None, track=untracked)


def test_what_is_known_of_a_mapped_source_is_that_of_its_images(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 4), dtype=np.uint8)
    y = np.arange(6) % 2
    own = Source("own", Images(x, y), Images(x[:2], y[:2]), ("a", "b"))
    (tmp_path / "file").touch()
    read = 0

    def parse() -> Source:
        nonlocal read
        read += 1
        return own

    for _ in range(2):
        found = cached_arrays("own", [tmp_path / "file"], parse, Cache(tmp_path / "cache"))
        assert found.known is not None
        assert (found.content, found.moments, found.classes) == (own.content, own.moments, own.classes)
        assert np.array_equal(found.train.x, x)
        assert found.counts() == {"train": [3, 3], "test": [1, 1]}
    assert read == 1
    grey = found.converted("grey", None)
    assert grey.known is None  # other images


def test_what_is_left_out_is_said_at_every_start(root: Path) -> None:
    (root / "train" / "evil\x1b[2J.heic").write_bytes(b"x")
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"left out of .*train: 1 \.heic \(evil\?\[2J\.heic\)"):
            cached_files(labelled(root), (3, 12, 12), Cache(root / "cache"), track=untracked)


def test_too_large_for_the_disk_is_said_before_anything_is_decoded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: Disk(free=2000))
    with pytest.raises(GradcastError, match=r"decoding .* to 12 x 12 pixels takes 0\.0 MB in the cache .* are free"):
        cached_files(labelled(root), (3, 12, 12), Cache(root / "cache"), track=untracked)
    assert list((root / "cache").iterdir()) == []
