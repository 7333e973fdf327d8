"""Pickles that can build nothing but numpy arrays of numbers and plain containers.

Some publishers ship pickles, and a pickle may name any function to be called. Here the few names that arrays need
stand for small classes of our own, which keep the raw bytes and turn them into arrays afterwards; every other name is
refused.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from gradcast.errors import GradcastError

BROKEN = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, LookupError, ValueError, TypeError,
    OverflowError, MemoryError, RecursionError,
)  # fmt: skip


def load_pickle(path: Path) -> Any:  # noqa: ANN401 - a pickle holds what it holds; callers check
    """The content of a pickle, strings of Python 2 as bytes."""
    try:
        with open(path, "rb") as file:
            return _finished(_Unpickler(file, encoding="bytes").load())
    except _ForbiddenNameError as error:
        raise GradcastError(
            f"{path} asks to call {error}: it is not a plain dataset and was not opened further"
        ) from None
    except BROKEN as error:
        raise GradcastError(
            f"{path} is not a readable pickle ({type(error).__name__}: {error}); fetch it again"
        ) from None


class _ForbiddenNameError(Exception):
    pass


class _Dtype:
    """numpy.dtype: a type code, and in its state the byte order."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code, self.order = _text(code), "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = _text(state[1])

    def finish(self) -> np.dtype:
        if self.code[:1] not in "biufS?" or not self.code[1:].isdigit():
            raise ValueError(f"arrays of type {self.code!r} are not plain numbers")
        return np.dtype(self.order.replace("|", "=") + self.code)


class _Array:
    """numpy.ndarray: shape, type and bytes come with its state."""

    state: tuple[Any, ...] = ()

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def finish(self) -> np.ndarray:
        _, shape, dtype, fortran, raw = self.state
        return np.frombuffer(raw, dtype.finish()).reshape(shape, order="F" if fortran else "C")


class _Scalar:
    """A single number."""

    def __init__(self, dtype: _Dtype, raw: bytes) -> None:
        self.dtype, self.raw = dtype, raw

    def finish(self) -> object:
        return np.frombuffer(self.raw, self.dtype.finish())[0].item()


def _latin1(text: str, encoding: str | bytes = "latin1") -> bytes:
    """_codecs.encode, which newer Pythons write bytes with, for the one encoding they use."""
    if _text(encoding) != "latin1":
        raise ValueError(f"encoding {encoding!r}")
    return text.encode("latin1")


KNOWN: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): _Scalar,
    ("numpy._core.multiarray", "scalar"): _Scalar,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _latin1,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> object:
        try:
            return KNOWN[module_name, global_name]
        except KeyError:
            raise _ForbiddenNameError(f"{module_name}.{global_name}") from None


def _finished(value: Any) -> Any:  # noqa: ANN401
    """Stand-ins replaced by what they stand for, in all containers."""
    match value:
        case _Array() | _Scalar():
            return value.finish()
        case dict():
            return {_finished(key): _finished(entry) for key, entry in value.items()}
        case list() | tuple():
            return type(value)(_finished(entry) for entry in value) if not _plain(value) else value
        case _:
            return value


def _plain(values: list[Any] | tuple[Any, ...]) -> bool:
    """Whether nothing in a (long) list needs a look."""
    return all(type(entry) in (int, str, bytes, float) for entry in values)


def _text(value: str | bytes) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else value
