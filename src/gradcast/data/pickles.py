"""Pickles that can build nothing but numpy arrays of numbers and plain containers.

Some publishers ship pickles, and a pickle may name any function to be called. Here the few names that arrays need
stand for small classes of our own, which keep the raw bytes and turn them into arrays afterwards; every other name is
refused.
"""

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

from gradcast.data.limits import check_size
from gradcast.data.pickle_program import check_program
from gradcast.errors import GradcastError

BROKEN = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError, ValueError, TypeError,
    OverflowError, MemoryError, RecursionError, OSError, Warning,
)  # fmt: skip


def load_pickle(path: Path) -> Any:  # noqa: ANN401 - a pickle holds what it holds; callers check
    """The content of a pickle, strings of Python 2 as bytes."""
    check_size(path)
    try:
        with open(path, "rb") as file:
            check_program(file)
            file.seek(0)
            return _finished(_Unpickler(file, encoding="bytes").load(), {})
    except _ForbiddenNameError as error:
        raise GradcastError(
            f"{path} asks to call {_brief(error)}: it is not a plain dataset and was not opened further"
        ) from None
    except BROKEN as error:
        raise GradcastError(
            f"{path} is not a readable pickle ({type(error).__name__}: {_brief(error)}); fetch it again"
        ) from None


def _brief(error: Exception) -> str:
    """The start of a message on one line, without what a terminal would obey: a file may have chosen its words."""
    line = " ".join(str(error).split())[:200]
    return "".join(letter if letter.isprintable() else "?" for letter in line)


class _ForbiddenNameError(Exception):
    pass


class _StandIn:
    """The base of all; it keeps a pickle from changing attributes of the classes themselves."""

    def __setstate__(self, state: object) -> None:
        raise ValueError("a state for what has none")


class _Dtype(_StandIn):
    """numpy.dtype: a type code, and in its state the byte order."""

    def __init__(self, code: object, *_: object) -> None:
        self.code, self.order = _text(code), "="

    def __setstate__(self, state: Any) -> None:  # noqa: ANN401
        self.order = _text(state[1])

    def finish(self) -> np.dtype:
        if not re.fullmatch("[<>=|]", self.order) or not re.fullmatch("[biufS][0-9]+", self.code):
            raise ValueError(f"arrays of type {self.order + self.code!r} are not plain numbers")
        return np.dtype(self.order.replace("|", "=") + self.code)


class _Array(_StandIn):
    """numpy.ndarray: shape, type and bytes come with its state."""

    state: Any = ()

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: object) -> None:
        self.state = state

    def finish(self) -> np.ndarray:
        _, shape, dtype, fortran, raw = self.state
        return np.frombuffer(raw, dtype.finish()).reshape(shape, order="F" if fortran else "C")


class _Buffer(_StandIn):
    """numpy.ndarray as protocol 5 has it: all at once, the axes of an array in neither order named at the end."""

    def __init__(self, *content: Any) -> None:  # noqa: ANN401
        self.content = content

    def finish(self) -> np.ndarray:
        raw, dtype, shape, order, *axes = self.content
        array = np.frombuffer(raw, dtype.finish()).reshape(shape, order="F" if order == "F" else "C")
        return array.transpose(*axes) if axes and order == "K" else array


class _Scalar(_StandIn):
    """Stands in for a numpy scalar."""

    def __init__(self, *content: Any) -> None:  # noqa: ANN401
        self.content = content

    def finish(self) -> object:
        dtype, raw = self.content
        return np.frombuffer(raw, dtype.finish())[0].item()


class _Encode(_StandIn):
    """_codecs.encode, as newer Pythons write bytes in old protocols, for their one encoding; bytes() where empty."""

    def __call__(self, text: object = "", encoding: object = "latin1") -> bytes:
        if _text(encoding) != "latin1":
            raise ValueError(f"encoding {encoding!r}")
        return _text(text).encode("latin1")


KNOWN: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): _Scalar,
    ("numpy._core.multiarray", "scalar"): _Scalar,
    ("numpy.core.numeric", "_frombuffer"): _Buffer,
    ("numpy._core.numeric", "_frombuffer"): _Buffer,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encode(),
    ("__builtin__", "bytes"): _Encode(),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> object:
        try:
            return KNOWN[module_name, global_name]
        except KeyError:
            raise _ForbiddenNameError(f"{module_name}.{global_name}") from None


def _finished(value: Any, done: dict[int, Any]) -> Any:  # noqa: ANN401
    """Stand-ins replaced by what they stand for, in all containers; what appears many times is replaced once."""
    if id(value) in done:
        return done[id(value)]
    match value:
        case _Array() | _Buffer() | _Scalar():
            result = value.finish()
        case dict():
            result = {_finished(key, done): _finished(entry, done) for key, entry in value.items()}
        case list() | tuple() if not _plain(value):
            result = type(value)(_finished(entry, done) for entry in value)
        case _:
            return value
    done[id(value)] = result
    return result


def _plain(values: list[Any] | tuple[Any, ...]) -> bool:
    """Whether nothing in a (long) list needs a look."""
    return all(type(entry) in (int, str, bytes, float) for entry in values)


def _text(value: object) -> str:
    if not isinstance(value, str | bytes):
        raise TypeError(f"{type(value).__name__} in place of text")
    return value.decode("latin1") if isinstance(value, bytes) else value
