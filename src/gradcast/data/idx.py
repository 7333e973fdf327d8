"""MNIST and Fashion-MNIST: four idx files, gzipped or not."""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from gradcast.data.images import Images, Source
from gradcast.errors import GradcastError

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
LARGEST = 2**30
MOST_DIMENSIONS = 4
DIGITS = tuple(str(digit) for digit in range(10))
CLOTHES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def find_idx(folder: Path) -> list[Path] | None:
    """The four files in the order of FILES, or None when one is missing."""
    names = [name for pair in FILES.values() for name in pair]
    found = [next((p for p in (folder / f"{name}.gz", folder / name) if p.is_file()), None) for name in names]
    present = [path for path in found if path is not None]
    return present if len(present) == len(names) else None


def read_idx_dataset(name: str, paths: list[Path], classes: tuple[str, ...]) -> Source:
    """All four files of MNIST or of a dataset in its format."""
    arrays = [read_idx(path) for path in paths]
    for path, array, dimensions in zip(paths, arrays, (3, 1, 3, 1), strict=True):
        if array.ndim != dimensions:
            raise GradcastError(f"{path} has {array.ndim} dimensions instead of {dimensions}; fetch it again")
    train_x, train_y, test_x, test_y = arrays
    train, test = Images(train_x[:, None], train_y.astype(np.int64)), Images(test_x[:, None], test_y.astype(np.int64))
    return Source(name, train, test, classes)


def read_idx(path: Path) -> np.ndarray:
    """An idx file of unsigned bytes: two zeros, type 8, number of dimensions, their sizes, the data."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            raw = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise GradcastError(f"{path} cannot be unpacked ({error}); fetch it again") from None
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise GradcastError(f"{path} is not an idx file of bytes (wrong magic number); fetch it again")
    if len(raw) > LARGEST:
        raise GradcastError(f"{path} unpacks to more than {LARGEST} bytes, which no dataset of this kind has")
    dimensions = raw[3]
    if dimensions > MOST_DIMENSIONS:
        raise GradcastError(f"{path} claims {dimensions} dimensions; fetch it again")
    if len(raw) < 4 + 4 * dimensions:
        raise GradcastError(f"{path} ends inside its header; fetch it again")
    shape = struct.unpack(f">{dimensions}I", raw[4 : 4 + 4 * dimensions])
    body = np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * dimensions)
    if body.size != int(np.prod(shape, dtype=object)):
        raise GradcastError(f"{path} holds {body.size} bytes where its header promises {shape}; fetch it again")
    return body.reshape(shape)
