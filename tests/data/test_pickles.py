import os
import pickle
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradcast.data.pickles import load_pickle
from tests.data.hostile import COPIES, PROTOCOLS, pickled, refusal, refusals_of_damaged_copies

ARRAYS = [
    np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
    np.arange(24, dtype=np.uint8).reshape(2, 3, 4).transpose(1, 0, 2),
    np.arange(12)[::2],
    np.array([1.5, -2.0], dtype=">f4"),
    np.array([True, False]),
    np.array([b"ab", b"c"]),
    np.array(7, dtype=np.uint16),
]
RECONSTRUCT = np.zeros(1).__reduce__()[0]
FROM_BUFFER = np.zeros(1).__reduce_ex__(5)[0]


class Call:
    """Pickles as a call and perhaps a state for its result."""

    def __init__(self, function: Any, arguments: tuple[Any, ...], *state: Any) -> None:
        self.call = function, arguments, *state

    def __reduce__(self) -> Any:
        return self.call


def load(folder: Path, raw: bytes) -> Any:
    path = folder / "file.pkl"
    path.write_bytes(raw)
    return load_pickle(path)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}-{array.shape}")
def test_arrays_come_back_as_they_were(tmp_path: Path, array: np.ndarray, protocol: str | int) -> None:
    found = load(tmp_path, pickled(array, protocol))
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    assert found.shape == array.shape


@pytest.mark.parametrize("protocol", [0, 1, *PROTOCOLS])
def test_plain_containers_and_single_numbers_come_back(tmp_path: Path, protocol: str | int) -> None:
    value = {
        b"a": [1, -2, 2**70, 0.5, True, None],
        b"b": (b"", b"c", {3: [np.int64(4), np.float32(0.25), [5]]}),
        b"d": [],
    }
    found = load(tmp_path, pickled(value, protocol))
    assert found == value
    assert type(found[b"b"][2][3][0]) is int


def test_text_of_python_2_is_bytes_and_text_of_python_3_is_text(tmp_path: Path) -> None:
    assert load(tmp_path, pickled(["data"], "python 2")) == [b"data"]
    assert load(tmp_path, pickled(["data"], 2)) == ["data"]


def test_an_array_that_appears_twice_is_one_array(tmp_path: Path) -> None:
    array = np.arange(3)
    first, second = load(tmp_path, pickled([array, {1: array}]))
    assert first is second[1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: {b"data": [(1, x)]}, lambda x: {x: 1}], ids=["it", "in", "key"]
)
def test_nothing_is_ever_called(tmp_path: Path, wrap: Any, protocol: str | int) -> None:
    mark = tmp_path / "made by the pickle"
    assert re.search(
        r"asks to call (posix|nt)\.system: it is not a plain dataset and was not opened further",
        refusal(load, tmp_path, pickled(wrap(Call(os.system, (f"touch '{mark}'",))), protocol)),
    )
    assert re.search(
        r"asks to call (builtins|__builtin__)\.eval: ",
        refusal(load, tmp_path, pickled(wrap(Call(eval, (f"open({str(mark)!r}, 'w')",))), protocol)),
    )
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (b"cbuiltins\neval\n", "builtins.eval"),
        (b"cnumpy\nndarray.tofile\n", "numpy.ndarray.tofile"),
        (b"\x8c\x05numpy\x8c\x0endarray.tofile\x93", "numpy.ndarray.tofile"),
        (b"\x8c\x16numpy._core.multiarray\x8c\x15_reconstruct.__call__\x93", "_reconstruct.__call__"),
        (b"cnumpy.core.multiarray\nfromfile\n", "numpy.core.multiarray.fromfile"),
        (b"cgradcast.data.pickles\nload_pickle\n", "gradcast.data.pickles.load_pickle"),
        (b"c_codecs\ndecode\n", "_codecs.decode"),
        (b"\x8c\x03o\ns\x8c\x08\x1b[2Jsys\n\x93", r"o s\.\?\[2Jsys"),
        (b"X\x01\0\0\0oX" + struct.pack("<I", 100_000) + b"s" * 100_000 + b"\x93", "o.sss"),
    ],
)
def test_other_names_are_refused_even_when_they_are_not_called(tmp_path: Path, name: bytes, said: str) -> None:
    assert re.search(f"file.pkl asks to call .*{said}", refusal(load, tmp_path, b"\x80\x04" + name + b"."))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "array",
    [
        np.array([None, "a"], dtype=object),
        np.array(["text"]),
        np.zeros(2, dtype=[("a", "i4"), ("b", "O")]),
        np.zeros(2, dtype="M8[s]"),
        np.zeros(2, dtype=complex),
        np.zeros(2, dtype="V3"),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_of_anything_but_numbers_are_refused(tmp_path: Path, array: np.ndarray, protocol: str | int) -> None:
    assert re.search(
        "file.pkl is not a readable pickle .*not plain numbers",
        refusal(load, tmp_path, pickled({b"data": array}, protocol)),
    )


@pytest.mark.parametrize("order", [b"O,", b"i4,", b"(2,3)", b"", b"<<", b"\n"])
def test_a_byte_order_cannot_smuggle_in_a_type(tmp_path: Path, order: bytes) -> None:
    raw = pickled(np.arange(4, dtype=np.int16)).replace(b"U\x01<", b"U" + bytes([len(order)]) + order)
    assert re.search("not plain numbers", refusal(load, tmp_path, raw))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("shape", [(10**15,), (2**31, 2**31, 2**31), (10**30,), (3, 2), ("a",), -(2**70)])
def test_a_shape_that_the_bytes_do_not_fill_is_refused(tmp_path: Path, shape: Any, protocol: str | int) -> None:
    state = (1, shape, np.dtype(np.uint8), False, b"1234")
    assert re.search(
        "file.pkl is not a readable pickle",
        refusal(load, tmp_path, pickled(Call(RECONSTRUCT, (np.ndarray, (0,), b"b"), state), protocol)),
    )
    assert re.search(
        "file.pkl is not a readable pickle",
        refusal(load, tmp_path, pickled(Call(FROM_BUFFER, (b"1234", np.dtype(np.uint8), shape, "C")), protocol)),
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "pickle exhausted|Ran out"),
        (b"not a pickle at all", ""),
        (b"\x80\x02", ""),
        (b"\x80\x63N.", "protocol"),
        (b"PK\x03\x04" + bytes(100), ""),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", ""),
        (b"\x80\x04\x8e" + b"\xff" * 8 + b"abc.", ""),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**45) + b"abc.", ""),
        (b"\x80\x05\x96" + struct.pack("<Q", 2**45) + b"abc.", ""),
        (b"\x80\x04\x95" + struct.pack("<Q", 2**45) + b"N.", ""),
        (b"\x80\x02Nr\xff\xff\xff\x0f.", "memo"),
        (b"\x80\x02Np268435455\n.", "memo"),
        (b"\x80\x02\x82\x01.", ""),
        (b"\x80\x02K\x01Q.", ""),
        (b"Pname\n.", ""),
        (b"S'\\q'\n.", ""),
        (b"\x80\x05\x97.", ""),
        (b"I" + b"9" * 10_000 + b"\n.", ""),
        (b"\x80\x02]q\0h\0a.", "RecursionError"),
        (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "RecursionError"),
        (b"\x80\x02}]K\x01s.", "a list as the key of a dict"),
        (b"\x80\x02cnumpy\nndarray\n)R.", ""),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", ""),
        (b"\x80\x02cnumpy\ndtype\n)R.", ""),
        (b"\x80\x02cnumpy.core.multiarray\nscalar\nK\x01K\x02\x86R.", ""),
        (b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aX\x04\0\0\0utf8\x86R.", "encoding 'utf8'"),
        (b"\x80\x02c_codecs\nencode\nX\x03\0\0\0\xe2\x82\xac\x85R.", ""),
        (b"\x80\x02c_codecs\nencode\nK\x01\x85R.", ""),
        (b"\x80\x02c__builtin__\nbytes\nJ\xff\xff\xff\x7f\x85R.", "int in place of text"),
    ],
)  # fmt: skip
def test_broken_files_are_named(tmp_path: Path, raw: bytes, message: str) -> None:
    assert re.search(
        f"{tmp_path}/file.pkl is not a readable pickle .*{message}.*; fetch it again", refusal(load, tmp_path, raw)
    )


def test_every_cut_of_a_file_is_noticed(tmp_path: Path) -> None:
    whole = pickled({b"data": np.arange(6, dtype=np.uint8).reshape(2, 3), b"labels": [0, 1]})
    for length in range(len(whole)):
        assert re.search("is not a readable pickle", refusal(load, tmp_path, whole[:length]))


@pytest.mark.parametrize(
    "name", [b"numpy\nndarray", b"numpy\ndtype", b"numpy.core.multiarray\nscalar", b"_codecs\nencode"]
)
@pytest.mark.parametrize("state", [{"finish": 1, "__call__": 2}, (None, {"finish": 1, "__defaults__": ("utf8",)})])
def test_a_pickle_cannot_change_the_reader(tmp_path: Path, name: bytes, state: Any) -> None:
    assert re.search(
        "is not a readable pickle",
        refusal(load, tmp_path, b"\x80\x02c" + name + b"\n" + pickle.dumps(state, 2)[2:-1] + b"b."),
    )
    good = [np.arange(3), np.int16(4), b"bytes"]
    found = load(tmp_path, pickled(good, 2))
    assert [found[0].tolist(), *found[1:]] == [[0, 1, 2], 4, b"bytes"]


def test_lists_of_the_same_lists_take_no_time(tmp_path: Path) -> None:
    raw = b"\x80\x02]q\0"
    for depth in range(100):
        raw += b"]q" + bytes([depth + 1]) + b"(h" + bytes([depth]) + b"h" + bytes([depth]) + b"e"
    nested = load(tmp_path, raw + b".")
    for _ in range(100):
        assert nested[0] is nested[1]
        nested = nested[0]


def test_a_folder_or_nothing_in_place_of_the_file(tmp_path: Path) -> None:
    assert re.search("is not a readable pickle", refusal(load_pickle, tmp_path))
    assert re.search(r"missing cannot be read \(No such file", refusal(load_pickle, tmp_path / "missing"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_damaged_copies(tmp_path: Path, protocol: str | int) -> None:
    path = tmp_path / "file.pkl"
    value = {b"data": np.arange(60, dtype=np.uint8).reshape(5, 12), b"labels": [0, 300, np.int64(7)], b"n": (b"a", 0.5)}
    path.write_bytes(pickled(value, protocol))
    assert 0 < refusals_of_damaged_copies(path, lambda: load_pickle(path)) < COPIES
