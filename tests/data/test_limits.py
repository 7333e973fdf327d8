import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gradcast.data.cifar import BINARY, read_cifar
from gradcast.data.idx import read_idx
from gradcast.data.limits import LARGEST, LARGEST_LIST, check_size, read_list, size_in_words
from gradcast.data.own_images import read_npz
from gradcast.data.pickles import load_pickle
from gradcast.data.svhn import read_svhn
from gradcast.errors import GradcastError


def sparse(path: Path, size: int) -> Path:
    """A file of so many bytes that takes no space."""
    path.touch()
    os.truncate(path, size)
    return path


def test_a_file_that_is_too_large_is_not_opened(tmp_path: Path) -> None:
    path = sparse(tmp_path / "x.bin", LARGEST + 1)
    with pytest.raises(GradcastError, match=r"x\.bin has 4\.0 GB and files of its kind at most 4\.0 GB"):
        check_size(path)
    assert check_size(sparse(tmp_path / "y.bin", LARGEST)) == LARGEST
    with pytest.raises(GradcastError, match=r"nothing cannot be read \(No such file"):
        check_size(tmp_path / "nothing")


def test_lists_without_blank_lines_and_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbfone\tA\r\n\n  two \n")
    assert read_list(tmp_path / "list.txt") == ["one\tA", "two"]
    (tmp_path / "list.txt").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "list.txt", tmp_path / "nothing", sparse(tmp_path / "long", LARGEST_LIST + 1)):
        with pytest.raises(GradcastError, match=path.name):
            read_list(path)


def test_sizes_size_in_words() -> None:
    assert (size_in_words(3 << 20), size_in_words(19 << 30)) == ("3.0 MB", "19.0 GB")


def cifar(path: Path) -> object:
    return read_cifar("cifar-10", path.parent, BINARY["cifar-10"])


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("train.mat", lambda path: read_svhn([path, path])),
        ("x.pkl", load_pickle),
        ("x-ubyte", read_idx),
        ("x-ubyte.gz", read_idx),
        ("batches.meta.txt", cifar),
        ("data_batch_1.bin", cifar),
        ("images.txt", read_list),
        ("val_annotations.txt", read_list),
        ("x.npz", read_npz),
    ],
)
def test_twenty_gigabytes_are_refused_at_once(tmp_path: Path, name: str, read: Callable[[Path], object]) -> None:
    (tmp_path / "batches.meta.txt").write_text("cat dog")
    path = sparse(tmp_path / name, 20 << 30)
    begun = time.monotonic()
    with pytest.raises(GradcastError, match=rf"{name} (has 20\.0 GB and files of its kind at most|is not a readable)"):
        read(path)
    assert time.monotonic() - begun < 5
