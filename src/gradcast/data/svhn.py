"""Street View House Numbers, cropped digits: two MATLAB files.

Their format (MATLAB 5) is read here, as far as arrays of numbers need it: scipy's reader crashes on damaged files.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from gradcast.data.images import Images, Source
from gradcast.data.limits import LARGEST, check_size
from gradcast.errors import GradcastError

FILES = ("train_32x32.mat", "test_32x32.mat")
DIGITS = tuple(str(digit) for digit in range(10))
LABELS = np.arange(1, 11)
HEADER = 128  # bytes, the last two of which tell the byte order
ORDERS = {b"\0\1IM": "<", b"\1\0MI": ">"}
MATRIX, COMPRESSED = 14, 15
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NUMBERS = range(6, 16)  # classes of matrices; others are text, cells, structures, ...
COMPLEX = 0x800


def find_svhn(data: Path) -> list[Path] | None:
    """Both files, or None."""
    paths = [data / "svhn" / name for name in FILES]
    return paths if all(path.is_file() for path in paths) else None


def read_svhn(paths: list[Path]) -> Source:
    """The label 10 of the files means the digit 0."""
    train, test = (_read(path) for path in paths)
    return Source("svhn", train, test, DIGITS)


def _read(path: Path) -> Images:
    check_size(path)
    try:
        arrays = _arrays(memoryview(path.read_bytes()))
    except (OSError, ValueError, LookupError, OverflowError, MemoryError, struct.error, zlib.error) as error:
        raise GradcastError(f"{path} is not a readable MATLAB 5 file ({error}); fetch it again") from None
    for variable in ("X", "y"):
        if variable not in arrays:
            raise GradcastError(f"{path} has no array {variable!r}; fetch it again")
    pixels, labels = arrays["X"], arrays["y"]
    if pixels.ndim != 4 or pixels.shape[:3] != (32, 32, 3) or pixels.dtype != np.uint8:
        raise GradcastError(
            f"{path} holds an X of shape {pixels.shape} and type {pixels.dtype} instead of 32x32x3xN bytes; "
            "fetch it again"
        )
    if not np.isin(labels, LABELS).all():
        raise GradcastError(f"{path} holds labels other than 1 to 10; fetch it again")
    x = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1))
    return Images(x, labels.ravel().astype(np.int64) % 10)


def _arrays(raw: memoryview) -> dict[str, np.ndarray]:
    """The variables that are arrays of real numbers."""
    order = ORDERS.get(bytes(raw[HEADER - 4 : HEADER]))
    if order is None:
        raise ValueError("wrong header")
    found = {}
    for kind, body in _elements(raw[HEADER:], order):
        if kind == COMPRESSED:
            kind, body = next(_elements(_unpacked(body), order), (0, body))
        if kind == MATRIX:
            found.update(_array(body, order))
    return found


def _array(body: memoryview, order: str) -> dict[str, np.ndarray]:
    """A matrix by its name: flags, dimensions, name and values; nothing when it is no array of real numbers."""
    (_, flags), *rest = islice(_elements(body, order), 4)
    (word,) = struct.unpack_from(f"{order}I", flags)
    if word & 0xFF not in NUMBERS or word & COMPLEX:
        return {}
    (_, dimensions), (_, name), (kind, content) = rest
    shape = np.frombuffer(dimensions, f"{order}i4").tolist()
    values = np.frombuffer(content, order + TYPES[kind])
    if min(shape, default=-1) < 0 or math.prod(shape) != values.size:
        raise ValueError(f"{values.size} numbers for an array of shape {shape}")
    return {bytes(name).decode("latin1"): values.reshape(shape, order="F")}


def _elements(raw: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Elements one after the other: their type, their length, that many bytes, zeros up to a multiple of eight."""
    at = 0
    while at < len(raw):
        kind, size = struct.unpack_from(f"{order}II", raw, at)
        start, padding = at + 8, 0 if kind == COMPRESSED else -size % 8
        if kind >> 16:  # up to four bytes share a word with type and length
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
            padding = 4 - size
        if start + size > len(raw) or padding < 0:
            raise ValueError(f"an element of {size} bytes where fewer are left")
        yield kind, raw[start : start + size]
        at = start + size + padding


def _unpacked(body: memoryview) -> memoryview:
    stream = zlib.decompressobj()
    content = stream.decompress(body, LARGEST)
    if not stream.eof:
        raise ValueError(f"a compressed variable that breaks off or has more than {LARGEST} bytes")
    return memoryview(content)
