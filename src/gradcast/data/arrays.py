"""Numpy's own files from anybody: nothing is unpickled, and no more memory is taken than the file fills."""

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from gradcast.data.limits import LARGEST, size_in_words

# What numpy raises on files that are not what they claim to be.
UNREADABLE = (
    OSError, ValueError, EOFError, TypeError, AttributeError, LookupError, OverflowError, MemoryError, RuntimeError,
    SyntaxError, tokenize.TokenError, struct.error, zipfile.BadZipFile, zlib.error, lzma.LZMAError, Warning,
)  # fmt: skip
DENSEST = 1032  # bytes that one byte may unpack to, at most


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file; raises one of UNREADABLE."""
    size = path.stat().st_size
    with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
        promised = sum(_check(archive, entry, size) for entry in archive.infolist())
        if promised > LARGEST:
            raise ValueError(
                f"its arrays take {size_in_words(promised)}, and one file may hold {size_in_words(LARGEST)}; "
                "use a folder of images instead"
            )
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in arrays}


def _check(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, size: int) -> int:
    """How many bytes a header promises, which must lie behind it, before anything of that size is made."""
    if not entry.filename.endswith(".npy"):
        raise ValueError(f"{entry.filename!r} is no array")
    with archive.open(entry) as content:
        version = npy.read_magic(content)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(content)
        left = entry.file_size - content.tell()
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
    promised = math.prod(shape) * dtype.itemsize
    if promised != left or promised > DENSEST * size:
        raise ValueError(f"{entry.filename!r} promises {shape} of {dtype} and does not hold them")
    return promised
