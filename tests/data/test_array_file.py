import errno
import os
import resource
from pathlib import Path

import numpy as np
import pytest

from gradcast.data.array_file import array_file


@pytest.mark.parametrize("count", [0, 1, 999, 1000])
def test_fewer_rows_than_there_was_space_for(tmp_path: Path, count: int) -> None:
    x = np.random.default_rng(0).integers(0, 256, (count, 3, 2, 2), dtype=np.uint8)
    with array_file(tmp_path / "x.npy", (3, 2, 2), 1000) as append:
        assert (tmp_path / "x.npy").stat().st_size == 128 + 12_000  # taken at once
        for row in x:
            append(row[None])
    assert np.array_equal(np.load(tmp_path / "x.npy", mmap_mode="r" if count else None), x)
    assert (tmp_path / "x.npy").stat().st_size == 128 + x.nbytes


def test_a_full_disk_is_an_error_and_no_crash(tmp_path: Path) -> None:
    """A limit on files stands for the disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"), array_file(tmp_path / "x.npy", (3, 100, 100), 10):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_file_systems_that_cannot_reserve_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with array_file(tmp_path / "x.npy", (1, 2, 2), 3) as append:
        append(np.ones((2, 1, 2, 2), np.uint8))
    assert np.load(tmp_path / "x.npy").shape == (2, 1, 2, 2)
