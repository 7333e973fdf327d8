"""MNIST and Fashion-MNIST: four idx files, gzipped or not."""

import gzip
import math
import struct
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from gradcast.data.images import Images, Source
from gradcast.data.limits import LARGEST, check_size, size_in_words
from gradcast.errors import GradcastError

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
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
    check_size(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            shape = _shape(file, path)
            body = file.read(math.prod(shape) + 1)  # no more than was promised, whatever there is
    except (OSError, EOFError, zlib.error) as error:
        raise GradcastError(f"{path} cannot be unpacked ({error}); fetch it again") from None
    if len(body) != math.prod(shape):
        held = f"{len(body)} bytes" if len(body) < math.prod(shape) else "more bytes"
        raise GradcastError(f"{path} holds {held} where its header promises {shape}; fetch it again")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _shape(file: BufferedIOBase, path: Path) -> tuple[int, ...]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:3] != b"\0\0\x08":
        raise GradcastError(f"{path} is not an idx file of bytes (wrong magic number); fetch it again")
    dimensions = magic[3]
    if dimensions > MOST_DIMENSIONS:
        raise GradcastError(f"{path} claims {dimensions} dimensions; fetch it again")
    sizes = file.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise GradcastError(f"{path} ends inside its header; fetch it again")
    shape = struct.unpack(f">{dimensions}I", sizes)
    if math.prod(shape) > LARGEST:
        raise GradcastError(f"{path} promises more than {size_in_words(LARGEST)}, which no dataset of this kind has")
    return shape
