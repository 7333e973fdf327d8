"""What a cache entry should hold: the size and digests of its files, so that damage is found and named."""

import hashlib
import json
from collections.abc import Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from gradcast.runs.jsontext import parse_json

RECORD = "key.json"
DIGEST = 16  # bytes
BLOCK, BLOCKS = 2**16, 16  # bytes that are read of a file at every start, in so many places


class FileRecord(BaseModel):
    """One file: its bytes, a digest of all, and one of a sample with the beginning, where an array's type is told."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    size: int
    digest: str
    sample: str

    @classmethod
    def of(cls, path: Path) -> "FileRecord":
        """What is true of a file now."""
        return cls(size=path.stat().st_size, digest=_whole(path), sample=_sample(path))


class EntryRecord(BaseModel):
    """The key that an entry was made for, and its files by name."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    key: dict[str, Any]
    files: dict[str, FileRecord]

    @classmethod
    def read(cls, folder: Path) -> "EntryRecord":
        """The record of an entry; raises OSError or ValueError."""
        return cls.model_validate(parse_json((folder / RECORD).read_text(encoding="utf-8")))

    @classmethod
    def write(cls, folder: Path, key: Mapping[str, object]) -> None:
        """Record the files of a folder as they are now."""
        files = {path.name: FileRecord.of(path) for path in sorted(folder.iterdir())}
        text = cls(key=json.loads(json.dumps(key)), files=files).model_dump_json(indent=2)
        (folder / RECORD).write_text(text + "\n", encoding="utf-8")

    def check(self, folder: Path, *, whole: bool) -> None:
        """Raise ValueError where a file is not as it was recorded: all of it, or as far as a sample shows."""
        found = {path.name for path in folder.iterdir()} - {RECORD}
        for name in sorted(found ^ self.files.keys()):
            raise ValueError(f"{name} {'does not belong there' if name in found else 'is missing'}")
        for name, record in self.files.items():
            path = folder / name
            if path.is_symlink() or not path.is_file():
                raise ValueError(f"{name} is no file")
            if path.stat().st_size != record.size:
                raise ValueError(f"{name} has {path.stat().st_size} bytes, not {record.size}")
            if _sample(path) != record.sample or (whole and _whole(path) != record.digest):
                raise ValueError(f"{name} has other content than was written")


def _whole(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=DIGEST)).hexdigest()


def _sample(path: Path) -> str:
    """A digest of blocks from the beginning to the end, all of a small file."""
    size, found = path.stat().st_size, hashlib.blake2b(digest_size=DIGEST)
    with open(path, "rb") as file:
        for start in _starts(size):
            found.update(_read(file, start))
    return found.hexdigest()


def _starts(size: int) -> list[int]:
    if size <= BLOCK * BLOCKS:
        return list(range(0, size, BLOCK))
    return [place * (size - BLOCK) // (BLOCKS - 1) for place in range(BLOCKS)]


def _read(file: BufferedIOBase, start: int) -> bytes:
    file.seek(start)
    return file.read(BLOCK)
