"""Arrays in .npy files: read through a memory map, written without one, which a full disk would turn into a crash."""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from gradcast.data.images import Pixels, Shape


@contextmanager
def array_file(path: Path, shape: Shape, most: int) -> Iterator[Callable[[Pixels], None]]:
    """What appends images of one shape to a new file.

    Space for ``most`` images is taken at once, and what they leave of it is given back.
    """
    count = 0
    with open(path, "w+b") as file:
        _header(file, most, shape)
        if sys.platform == "linux":
            _reserve(file.fileno(), file.tell() + most * int(np.prod(shape)))

        def append(images: Pixels) -> None:
            nonlocal count
            file.write(np.ascontiguousarray(images).data)
            count += len(images)

        yield append
        file.truncate()
        file.seek(0)
        _header(file, count, shape)  # as long as the first: numpy leaves room for larger counts


def map_array(path: Path) -> np.ndarray:
    """An array that is read as it is looked at."""
    mapped: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def _header(file: BufferedIOBase, count: int, shape: Shape) -> None:
    npy.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (count, *shape)})


def _reserve(file: int, size: int) -> None:
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # a file system that cannot: writing will tell
            raise
