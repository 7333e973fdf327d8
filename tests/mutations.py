"""Damaged copies of files: cut, flipped, shuffled, with numbers beyond all measure; the same ones every time."""

import random
import re
from collections.abc import Iterator

NEAR = 300  # bytes from an end: the structure of most files lies there
NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eE][+-]?\d+)?")
WORD = re.compile(rb"[\w.+-]+|[^\w\s]")
# In place of a number or word of a text: other kinds, other scripts, what overflows, nests, ends or steers.
STRANGERS = (
    b"-1", b"0", b"1e400", b"-1e400", b"NaN", b"Infinity", b"nan", b"1e-400", b"18446744073709551616", b"9" * 400,
    b"9" * 5000, b"0x10", b"1_000", b"true", b"null", b"{}", b"[]", b'""', b'"a"', b"[" * 100_000, b'{"a":' * 5000,
    b"\0", b"\xff\xfe", b"\xed\xa0\x80", "\u202e٣".encode(), b"\x1b[2J", b"\r", b"\n", b'"', b"'", b"\\", b"\\u0000",
    b"\\ud800", b"..", b"../../x", b"a" * 3000,
)  # fmt: skip


def damaged(whole: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Copies with one to eight faults each, two of three close to an end of the file."""
    chance = random.Random(seed)
    for _ in range(count):
        copy = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            _damage(copy, _place(copy, chance), chance)
        yield bytes(copy)


def edited(whole: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """Copies of a text with numbers, words and lines changed; every fourth is damaged as any file may be."""
    chance = random.Random(seed)
    bytewise = damaged(whole, count, seed)
    for index in range(count):
        copy = whole
        for _ in range(chance.choice((1, 1, 2, 4))):
            copy = _edit(copy, chance)
        yield next(bytewise) if index % 4 == 3 else copy


def _place(copy: bytearray, chance: random.Random) -> int:
    edge = max(min(len(copy), NEAR), 1)
    return chance.choice(
        (chance.randrange(max(len(copy), 1)), chance.randrange(edge), max(len(copy) - 1 - chance.randrange(edge), 0))
    )


def _damage(copy: bytearray, at: int, chance: random.Random) -> None:
    some = chance.randrange(1, 20)
    match chance.randrange(9):
        case 0:
            copy[at : at + 1] = chance.randbytes(1)
        case 1:
            copy[at : at + 1] = bytes(byte ^ 1 << chance.randrange(8) for byte in copy[at : at + 1])
        case 2:
            copy[at:at] = chance.randbytes(some)
        case 3:
            del copy[at : at + some]
        case 4:
            del copy[at + chance.randrange(NEAR) :]
        case 5:  # two neighbouring blocks change places
            copy[at : at + 2 * some] = copy[at + some : at + 2 * some] + copy[at : at + some]
        case 6:  # a block from elsewhere
            other = _place(copy, chance)
            copy[at : at + some] = copy[other : other + some]
        case _:  # a size beyond all measure, or none
            size = chance.choice((1, 2, 4, 8))
            number = chance.choice((0, 1, 2**31 - 1, 2**31, 2**40, 2**63 - 1, 2**64 - 1)) % 256**size
            copy[at : at + size] = number.to_bytes(size, chance.choice(("little", "big")))


def _edit(copy: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        lines = copy.splitlines(keepends=True) or [b""]
        first, second = (chance.randrange(len(lines)) for _ in range(2))
        match chance.randrange(3):
            case 0:
                lines[first], lines[second] = lines[second], lines[first]
            case 1:
                del lines[first]
            case 2:
                lines.insert(first, lines[second])
        return b"".join(lines)
    found = list((NUMBER if kind == 1 else WORD).finditer(copy))
    if not found:
        return copy
    here, other = chance.choice(found), chance.choice(found)
    new = other[0] if kind == 3 else chance.choice(STRANGERS)
    return copy[: here.start()] + new + copy[here.end() :]
