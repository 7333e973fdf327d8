import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from gradcast.data.idx import DIGITS, FILES, find_idx, read_idx, read_idx_dataset
from gradcast.data.images import Source
from gradcast.errors import GradcastError


def write_idx(path: Path, array: np.ndarray) -> None:
    header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(gzip.compress(header + array.astype(np.uint8).tobytes(), mtime=0))


def mnist(data: Path) -> Source:
    paths = find_idx(data / "mnist")
    assert paths is not None
    return read_idx_dataset("mnist", paths, DIGITS)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """MNIST's four files with a few images."""
    (tmp_path / "mnist").mkdir()
    generator = np.random.default_rng(0)
    for split, count in (("train", 30), ("test", 12)):
        images, labels = FILES[split]
        write_idx(tmp_path / "mnist" / f"{images}.gz", generator.integers(0, 256, (count, 28, 28)))
        write_idx(tmp_path / "mnist" / f"{labels}.gz", np.arange(count) % 10)
    return tmp_path


def test_reads_the_official_layout(small: Path) -> None:
    source = mnist(small)
    assert source.shape == (1, 28, 28)
    assert (len(source.train), len(source.test)) == (30, 12)
    assert source.train.y[:3].tolist() == [0, 1, 2]


def test_idx_round_trip(tmp_path: Path) -> None:
    array = np.arange(24).reshape(2, 3, 4)
    write_idx(tmp_path / "a.gz", array)
    assert np.array_equal(read_idx(tmp_path / "a.gz"), array)


def test_unpacked_files_are_read_too(small: Path) -> None:
    before = mnist(small)
    for path in list((small / "mnist").glob("*.gz")):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert np.array_equal(mnist(small).train.x, before.train.x)


def test_a_missing_file_means_not_found(small: Path) -> None:
    next((small / "mnist").glob("t10k-labels*")).unlink()
    assert find_idx(small / "mnist") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no gzip at all", "cannot be unpacked"),
        (gzip.compress(b"\0\0\x08\x01" + bytes(100), mtime=0)[:-20], "cannot be unpacked"),
        (gzip.compress(b"PK\x03\x04", mtime=0), "wrong magic number"),
        (gzip.compress(b"", mtime=0), "wrong magic number"),
        (gzip.compress(b"\0\0\x08\x03\0\0", mtime=0), "ends inside its header"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x05abc", mtime=0), "holds 3 bytes where its header promises"),
        (gzip.compress(b"\0\0\x08\x64" + b"\0\0\0\1" * 100 + b"a", mtime=0), "claims 100 dimensions"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken.gz"
    path.write_bytes(content)
    with pytest.raises(GradcastError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_images_and_labels_of_different_length(small: Path) -> None:
    write_idx(small / "mnist" / f"{FILES['train'][1]}.gz", np.arange(7))
    with pytest.raises(GradcastError, match="30 images but 7 labels"):
        mnist(small)


@pytest.mark.data
def test_the_real_files(data: Path) -> None:
    source = mnist(data)
    assert (len(source.train), len(source.test)) == (60_000, 10_000)
    assert np.bincount(source.test.y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
