import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_array

from gradcast.data.svhn import DIGITS, FILES, find_svhn, read_svhn
from tests.data.hostile import COPIES, refusal, refusals_of_damaged_copies

X = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 12), dtype=np.uint8)
Y = np.array([[1], [2], [3], [4], [5], [6], [7], [8], [9], [10], [10], [1]], dtype=np.uint8)


@pytest.fixture
def small(tmp_path: Path) -> list[Path]:
    """Both files with a few images, compressed as the publisher's are."""
    (tmp_path / "svhn").mkdir()
    savemat(tmp_path / "svhn" / FILES[0], {"X": X, "y": Y}, do_compression=True)
    savemat(tmp_path / "svhn" / FILES[1], {"X": X[..., :3], "y": Y[:3]}, do_compression=True)
    found = find_svhn(tmp_path)
    assert found is not None
    return found


def test_reads_the_official_layout(small: list[Path]) -> None:
    source = read_svhn(small)
    assert (source.name, source.shape, source.classes) == ("svhn", (3, 32, 32), DIGITS)
    assert (len(source.train), len(source.test)) == (12, 3)
    for image in range(12):
        for channel in range(3):
            assert np.array_equal(source.train.x[image, channel], X[:, :, channel, image])


def test_label_ten_is_the_digit_zero(small: list[Path]) -> None:
    assert read_svhn(small).train.y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 1]


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("y", [Y.astype(float), Y.ravel(), Y.T.astype(">i4")], ids=["double", "row", "int32"])
def test_labels_of_any_number_type(small: list[Path], y: np.ndarray, compressed: bool) -> None:
    savemat(small[0], {"X": X, "y": y}, do_compression=compressed)
    source = read_svhn(small)
    assert source.train.y.tolist() == (Y.ravel() % 10).tolist()
    assert np.array_equal(source.train.x[:3], source.test.x)


def test_other_variables_are_passed_over(small: list[Path]) -> None:
    others = {"a": "text", "b": {"c": 1}, "c": np.array([[1, "a"]], dtype=object), "d": csc_array(np.eye(2)), "e": 1j}
    savemat(small[0], others | {"X": X, "y": Y} | {f"z{key}": value for key, value in others.items()})
    assert len(read_svhn(small).train) == 12


def test_big_endian_files(small: list[Path]) -> None:
    def element(kind: int, content: bytes) -> bytes:
        return struct.pack(">II", kind, len(content)) + content + bytes(-len(content) % 8)

    def matrix(name: bytes, array: np.ndarray) -> bytes:
        small_name = struct.pack(">HH", len(name), 1) + name.ljust(4, b"\0")
        flags, shape = struct.pack(">II", 9, 0), struct.pack(f">{array.ndim}i", *array.shape)
        return element(14, element(6, flags) + element(5, shape) + small_name + element(2, array.tobytes("F")))

    header = b"MATLAB 5.0 MAT-file".ljust(124) + b"\1\0MI"
    before = read_svhn(small).train
    packed = zlib.compress(matrix(b"X", X))
    small[0].write_bytes(header + struct.pack(">II", 15, len(packed)) + packed + matrix(b"y", Y))
    assert np.array_equal(read_svhn(small).train.x, before.x)
    assert np.array_equal(read_svhn(small).train.y, before.y)


def test_a_missing_file_means_not_found(small: list[Path]) -> None:
    small[1].unlink()
    assert find_svhn(small[0].parents[1]) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no MATLAB file",
        b"MATLAB 5.0 MAT-file" + bytes(105) + b"\0\1IM",
        b"MATLAB 7.3 MAT-file" + b" " * 105 + b"\0\2IM" + b"\x89HDF",
        bytes(1000),
        b"\xff" * 1000,
        b"PK\x03\x04" * 50,
    ],
    ids=["empty", "text", "header", "hdf", "zeros", "ones", "zip"],
)
def test_garbage_is_named(small: list[Path], raw: bytes) -> None:
    small[0].write_bytes(raw)
    assert re.search(
        f"{small[0]} (is not a readable MATLAB 5 file .*|has no array 'X'); fetch it again", refusal(read_svhn, small)
    )


@pytest.mark.parametrize("compressed", [True, False])
def test_every_cut_of_a_file_is_noticed(small: list[Path], compressed: bool) -> None:
    savemat(small[0], {"X": X, "y": Y}, do_compression=compressed)
    whole = small[0].read_bytes()
    for length in [*range(0, 400, 7), *range(400, len(whole), len(whole) // 20), len(whole) - 9]:
        small[0].write_bytes(whole[:length])
        assert re.search(f"{small[0]} (is not a readable MATLAB 5 file|has no array '[Xy]')", refusal(read_svhn, small))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": None}, "{path} has no array 'X'; fetch it again"),
        ({"y": None}, "{path} has no array 'y'; fetch it again"),
        ({"X": X[0]}, "{path} holds an X of shape .32, 3, 12. .* instead of 32x32x3xN bytes"),
        ({"X": X.transpose(3, 0, 1, 2)}, "{path} holds an X of shape .12, 32, 32, 3."),
        ({"X": X[:, :, :1]}, "{path} holds an X of shape .32, 32, 1, 12."),
        ({"X": X.astype(np.float64)}, "{path} holds an X .*float64"),
        ({"X": X.astype(np.int8)}, "{path} holds an X .*int8"),
        ({"X": "text"}, "{path} has no array 'X'"),
        ({"X": {"a": 1}}, "{path} has no array 'X'"),
        ({"X": csc_array(np.eye(3))}, "{path} has no array 'X'"),
        ({"y": Y[:5]}, "12 images but 5 labels"),
        ({"X": X[..., :0], "y": Y[:0]}, "svhn has no training images"),
        ({"y": Y - 1}, "{path} holds labels other than 1 to 10"),
        ({"y": Y + 1}, "{path} holds labels other than 1 to 10"),
        ({"y": -Y.astype(np.int16)}, "{path} holds labels other than 1 to 10"),
        ({"y": Y + 0.5}, "{path} holds labels other than 1 to 10"),
        ({"y": Y * np.nan}, "{path} holds labels other than 1 to 10"),
        ({"y": Y * 1j}, "{path} has no array 'y'"),
        ({"y": "one"}, "{path} has no array 'y'"),
        ({"y": {"a": 1}}, "{path} has no array 'y'"),
        ({"y": np.array([[1, "a"]], dtype=object)}, "{path} has no array 'y'"),
        ({"y": csc_array(Y.astype(float))}, "{path} has no array 'y'"),
    ],
)
def test_wrong_content_is_named(small: list[Path], changes: dict[str, Any], message: str) -> None:
    content = {"X": X, "y": Y} | changes
    savemat(small[0], {key: value for key, value in content.items() if value is not None})
    assert re.search(message.replace("{path}", str(small[0])), refusal(read_svhn, small))


def test_a_variable_that_unpacks_to_too_much(small: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradcast.data.svhn.LARGEST", X.size)
    assert re.search("breaks off or has more than 36864 bytes", refusal(read_svhn, small))


@pytest.mark.parametrize("shape", [(2**31 - 1, 1), (2**31 - 1, 2**31 - 1), (-12, -1), (11, 1)])
def test_a_shape_that_the_numbers_do_not_fill(small: list[Path], shape: tuple[int, int]) -> None:
    savemat(small[0], {"X": X, "y": Y})
    raw, there = small[0].read_bytes(), struct.pack("<IIii", 5, 8, 12, 1)
    assert raw.count(there) == 1
    small[0].write_bytes(raw.replace(there, struct.pack("<IIii", 5, 8, *shape)))
    assert re.search("12 numbers for an array of shape", refusal(read_svhn, small))


@pytest.mark.parametrize("compressed", [True, False])
def test_damaged_copies(small: list[Path], compressed: bool) -> None:
    savemat(small[0], {"X": X[..., :2], "y": Y[:2]}, do_compression=compressed)
    assert 0 < refusals_of_damaged_copies(small[0], lambda: read_svhn(small)) < COPIES
