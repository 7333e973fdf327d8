"""Pickles as Python 2 wrote them, damaged copies of files, and what must come of them: a sentence."""

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gradcast.errors import GradcastError
from tests.mutations import damaged

PROTOCOLS = ["python 2", 2, 3, 4, 5]
COPIES = 300


class _Python2Pickler(pickle._Pickler):
    """Protocol 2 with text and bytes as the strings of Python 2 and numpy's old module names."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, value: str | bytes) -> None:
        raw = value.encode("latin1") if isinstance(value, str) else value
        short = len(raw) < 256
        code = pickle.SHORT_BINSTRING if short else pickle.BINSTRING
        self.write(code + len(raw).to_bytes(1 if short else 4, "little") + raw)
        self.memoize(value)

    dispatch[str] = dispatch[bytes] = save_string


def pickled(value: Any, protocol: str | int = "python 2") -> bytes:
    """A pickle in one of PROTOCOLS."""
    if isinstance(protocol, int):
        return pickle.dumps(value, protocol)
    file = io.BytesIO()
    _Python2Pickler(file, 2).dump(value)
    return file.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def refusal(read: Callable[..., object], *arguments: Any, **named: Any) -> str:
    """What a reader says when it refuses: a GradcastError of one short line."""
    with pytest.raises(GradcastError) as caught:
        read(*arguments, **named)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 600
    return message


def refusals_of_damaged_copies(path: Path, read: Callable[[], object], *, seed: int = 0) -> int:
    """How many of COPIES damaged copies of a file are refused; the others are read, and nothing else is raised."""
    whole = path.read_bytes()
    read()
    messages = []
    for copy in damaged(whole, COPIES, seed):
        path.write_bytes(copy)
        try:
            read()
        except GradcastError as error:
            messages.append(str(error))
    path.write_bytes(whole)
    assert [message for message in messages if "\n" in message] == []
    return len(messages)
