from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradcast.data import cached_pool as module
from gradcast.data.cache import Cache
from gradcast.data.cached_pool import array_pool, cached_pool
from gradcast.data.files import fit
from gradcast.data.images import Images, Shape, Source, convert, fingerprint
from gradcast.data.load import untracked
from gradcast.data.scan import image_files
from gradcast.data.stored_images import StoredImages
from gradcast.errors import GradcastError
from tests.data.images import fill


def pool(root: Path, cache: Path, shape: Shape, *, squash: bool = False) -> StoredImages:
    return cached_pool("p", image_files(root), shape, Cache(cache), squash=squash, track=untracked)


def drawn(images: StoredImages) -> np.ndarray:
    return images.take(np.arange(len(images)))


def test_the_second_start_reads_no_image_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "in", 4)
    first = pool(tmp_path / "in", tmp_path / "cache", (1, 8, 8))
    monkeypatch.setattr(Image, "open", None)
    again = pool(tmp_path / "in", tmp_path / "cache", (1, 8, 8))
    assert isinstance(again.x, np.memmap)
    assert np.array_equal(drawn(first), drawn(again))
    assert first.content == again.content == fingerprint(drawn(first))


def test_other_options_are_other_entries(tmp_path: Path) -> None:
    fill(tmp_path / "in", 4)
    for shape, squash in (((3, 8, 8), False), ((3, 8, 8), True), ((1, 8, 8), False)):
        assert drawn(pool(tmp_path / "in", tmp_path / "cache", shape, squash=squash)).shape == (4, *shape)  # type: ignore[arg-type]
    assert len(Cache(tmp_path / "cache").entries()) == 3


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_many_small_images_stay_small_until_they_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, squash: bool, channels: int
) -> None:
    paths = fill(tmp_path / "in", 5, size=(10, 7))
    shape = (channels, 32, 24)
    monkeypatch.setattr(module, "RESIDENT", 100)
    found = pool(tmp_path / "in", tmp_path / "cache", shape, squash=squash)
    expected = np.stack([fit(Image.open(path), shape, "squash" if squash else "fit") for path in paths])
    assert found.x.shape == (5, channels, 7, 10)
    assert np.array_equal(drawn(found), expected)
    assert found.content == fingerprint(expected)


def test_images_of_several_sizes_are_decoded_to_the_one_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "in", 2, size=(10, 7))
    fill(tmp_path / "in", 2, size=(10, 8), start=5)
    monkeypatch.setattr(module, "RESIDENT", 100)
    assert pool(tmp_path / "in", tmp_path / "cache", (3, 16, 16)).x.shape == (4, 3, 16, 16)


def test_nothing_left_is_an_error_and_no_half_cache(tmp_path: Path) -> None:
    for path in fill(tmp_path / "in", 4):
        path.write_text("no image")
    with pytest.raises(GradcastError, match="none of the 4 image files"):
        pool(tmp_path / "in", tmp_path / "cache", (3, 8, 8))
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("shape", [(3, 4, 4), (3, 12, 12), (1, 12, 12), (3, 30, 20), (1, 6, 8)])
@pytest.mark.parametrize("squash", [False, True])
def test_arrays_are_kept_at_the_smaller_size(tmp_path: Path, shape: Shape, squash: bool) -> None:
    x = np.random.default_rng(0).integers(0, 256, (9, 3, 12, 12), dtype=np.uint8)
    images = Images(x, np.zeros(9, dtype=np.int64))
    source = Source("own", images, images, ("a",))
    expected = convert(x, shape, squash=squash)
    for _ in range(2):
        found = array_pool(source, shape, Cache(tmp_path), squash=squash, track=untracked)
        assert found.x.nbytes <= min(x.nbytes, expected.nbytes)
        assert np.array_equal(drawn(found), expected)
        assert np.array_equal(found.take(np.array([[3], [0]])), expected[[[3], [0]]])  # one by one as all at once
        assert found.content == fingerprint(expected)
