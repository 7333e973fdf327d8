"""MNIST from its publisher's four idx.gz files."""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from gradcast.errors import GradcastError
from gradcast.streams.images import Images, Source

FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
LAYOUT = (
    "MNIST is four files published at http://yann.lecun.com/exdb/mnist ({names}); "
    "put them in DIR/mnist and pass --data DIR or set GRADCAST_DATA=DIR"
)


def mnist(data: Path) -> Source:
    """All 70,000 digits from ``data/mnist``."""
    folder = data / "mnist"
    missing = [name for pair in FILES.values() for name in pair if not (folder / name).is_file()]
    if missing:
        names = ", ".join(name for pair in FILES.values() for name in pair)
        raise GradcastError(f"{folder / missing[0]} does not exist: {LAYOUT.format(names=names)}")
    parts = {}
    for split, (images, labels) in FILES.items():
        x, y = read_idx(folder / images), read_idx(folder / labels)
        if x.ndim != 3 or y.ndim != 1:
            raise GradcastError(
                f"{folder / images} and its labels have {x.ndim} and {y.ndim} dimensions, not 3 and 1; fetch them again"
            )
        parts[split] = Images(x[:, None], y.astype(np.int64))
    return Source("mnist", parts["train"], parts["test"], classes=10)


def read_idx(path: Path) -> np.ndarray:
    """An idx file of unsigned bytes: two zeros, type 8, number of dimensions, their sizes, the data."""
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise GradcastError(f"{path} cannot be unpacked ({error}); fetch it again") from None
    if len(raw) < 4 or raw[:3] != b"\0\0\x08":
        raise GradcastError(f"{path} is not an idx file of bytes (wrong magic number); fetch it again")
    dimensions = raw[3]
    if len(raw) < 4 + 4 * dimensions:
        raise GradcastError(f"{path} ends inside its header; fetch it again")
    shape = struct.unpack(f">{dimensions}I", raw[4 : 4 + 4 * dimensions])
    body = np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * dimensions)
    if body.size != np.prod(shape, dtype=np.int64):
        raise GradcastError(f"{path} holds {body.size} bytes where its header promises {shape}; fetch it again")
    return body.reshape(shape)
