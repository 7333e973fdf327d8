"""Pickles as Python 2 wrote them, damaged copies of files, and what must come of them: a sentence."""

import io
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from gradcast.errors import GradcastError

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
    for copy in _damaged(whole, COPIES, random.Random(seed)):
        path.write_bytes(copy)
        try:
            read()
        except GradcastError as error:
            messages.append(str(error))
    path.write_bytes(whole)
    assert [message for message in messages if "\n" in message] == []
    return len(messages)


def _damaged(whole: bytes, count: int, chance: random.Random) -> Iterator[bytes]:
    """Flips, cuts and insertions; two of three close to an end, where the structure of most files lies."""
    edge = min(len(whole), 300)
    for _ in range(count):
        copy = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            at = chance.choice(
                (chance.randrange(len(whole)), chance.randrange(edge), len(whole) - 1 - chance.randrange(edge))
            )
            match chance.randrange(6):
                case 0 | 1:
                    copy[at : at + 1] = chance.randbytes(1)
                case 2:
                    copy[at : at + 1] = bytes([copy[at] ^ 1 << chance.randrange(8)]) if at < len(copy) else b""
                case 3:
                    copy[at:at] = chance.randbytes(chance.randrange(1, 9))
                case 4:
                    del copy[at : at + chance.randrange(1, 20)]
                case 5:
                    del copy[at + chance.randrange(edge) :]
        yield bytes(copy)
