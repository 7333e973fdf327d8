import io
import pickle
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from gradcast.data.pickle_program import check_program
from gradcast.data.pickles import load_pickle
from tests.data.hostile import refusal


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """End the test process where something does not come back."""
    signal.alarm(seconds)
    yield
    signal.alarm(0)


def nested(depth: int) -> bytes:
    """A pickle of a dict whose key is a tuple of the same tuple twice, and so on: 2^depth values to hash."""
    body = b"\x80\x04}" + b")" + b"".join(b"\x94h" + bytes([level]) + b"\x86" for level in range(depth))
    return body + b"K\x01s."


def test_tuples_in_tuples_as_a_key_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "x.pkl").write_bytes(nested(100))
    with within(20):
        said = refusal(load_pickle, tmp_path / "x.pkl")
    assert "a tuple as the key of a dict" in said


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", [{(1, 2): 3}, {"a": [{(): 1}]}, [{1: 2, ("a",): 3}]])
def test_containers_as_keys_are_refused_wherever_they_are(value: object, protocol: int) -> None:
    with pytest.raises(ValueError, match="a tuple as the key of a dict"):
        check_program(io.BytesIO(pickle.dumps(value, protocol)))


@pytest.mark.parametrize("value", [{1, 2}, frozenset({(1, 2)}), {"a": {3}}])
def test_sets_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a set, which no dataset has"):
        check_program(io.BytesIO(pickle.dumps(value, 4)))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\x80\x04})q\x000h\x00h\x00\x86NbNs.", "a tuple as the key"),
        (b"\x80\x04})NbK\x01s.", "a tuple as the key"),  # a state of None leaves a tuple as it is
        (b"\x80\x04})2K\x01s.", "a tuple as the key"),  # a copy of the topmost value
        (b"\x80\x04(})0s.", "values are taken from an empty stack"),
        (b"\x80\x04t.", "no mark on the stack"),
        (b"\x80\x04\x94.", "an empty stack"),
        (b"\x80\x04r\xff\xff\xff\x7f.", "memo number 2147483647"),
    ],
)
def test_detours_to_a_key(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_program(io.BytesIO(raw))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_datasets_hold_passes(protocol: int) -> None:
    shared = [1, 2]
    value = {
        "a": np.arange(6).reshape(2, 3), b"b": [(1, "x"), shared, shared], 3: {0.5: None, True: ({"c": ()},)},
        np.int64(4): "number", "long": list(range(3000)), "names": {f"n{i}": [i] for i in range(1500)},
    }  # fmt: skip
    raw = pickle.dumps(value, protocol)
    check_program(io.BytesIO(raw))
    assert pickle.loads(raw).keys() == value.keys()
