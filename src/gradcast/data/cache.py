"""What was made once and is wanted again: decoded datasets as memory-mapped arrays, and head starts."""

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradcast.data.arrays import UNREADABLE
from gradcast.errors import GradcastError, message_of
from gradcast.runs.jsontext import parse_json

Arrays = dict[str, np.ndarray]
BUILDING = ".building-"
ABANDONED = 24 * 3600  # seconds after which a build that never ended may be deleted
VERSION = 1  # of the decoding: raised when the same files give other arrays


def default_cache() -> Path:
    """$GRADCAST_CACHE, or a folder for gradcast in the user's cache directory."""
    own = os.environ.get("GRADCAST_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return Path(own) if own else Path(shared) / "gradcast"


@dataclass(frozen=True)
class Entry:
    """One cached dataset or head start."""

    path: Path
    size: int  # bytes

    @property
    def name(self) -> str:
        """What it was kept under, without the digest of its key; of an abandoned build nothing is known."""
        return "" if self.path.name.startswith(BUILDING) else self.path.name.rpartition("-")[0]


class Cache:
    """A folder of folders of .npy files, one for each content and set of options.

    An entry appears whole or not at all: it is built beside its place and renamed. Two processes that build the same
    one do the work twice, and the second finds the first one's result in place and uses it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def place(self, name: str, key: Mapping[str, object]) -> Path:
        """Where what is under this key lies, if it is there."""
        return self.root / f"{name}-{hashlib.blake2b(_said(key).encode(), digest_size=8).hexdigest()}"

    def put(self, name: str, key: Mapping[str, object], build: Callable[[Path], None]) -> None:
        """Any files under this key, made in a folder."""
        try:
            self._build(self.place(name, key), _said(key), build)
        except (OSError, ValueError) as error:
            raise GradcastError(self._explain(error)) from None

    def get(self, name: str, key: Mapping[str, object], build: Callable[[Path], None]) -> Arrays:
        """The arrays under this key, built into a folder as .npy files where they are not there yet."""
        text, place = _said(key), self.place(name, key)
        if place.is_dir():
            try:
                return _load(place)
            except UNREADABLE as error:
                warnings.warn(
                    f"the cache entry {place} is damaged ({message_of(error)}) and is made anew", stacklevel=2
                )
                shutil.rmtree(place, ignore_errors=True)
        try:
            self._build(place, text, build)
            return _load(place)
        except (OSError, ValueError) as error:
            raise GradcastError(self._explain(error)) from None

    def _explain(self, error: OSError | ValueError) -> str:
        file = getattr(error, "filename", None)
        reason = getattr(error, "strerror", None) or error
        if isinstance(file, str) and not Path(file).is_relative_to(self.root):
            return f"{file} cannot be read ({reason})"
        return (
            f"the cache {self.root} cannot be written ({reason}); "
            "free some space there or set GRADCAST_CACHE to another folder"
        )

    def _build(self, place: Path, key: str, build: Callable[[Path], None]) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=BUILDING, dir=self.root))
        try:
            build(beside)
            files = sorted(path.name for path in beside.glob("*.npy"))
            (beside / "key.json").write_text(json.dumps({"key": json.loads(key), "files": files}, indent=2) + "\n")
            beside.rename(place)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # somebody else was faster, which is fine
                raise
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def entries(self) -> list[Entry]:
        """What is there, largest first; abandoned builds included, nothing that is not the cache's own."""
        folders = [path for path in self.root.iterdir() if _own(path)] if self.root.is_dir() else []
        sizes = [Entry(path, sum(file.stat().st_size for file in path.iterdir())) for path in folders]
        return sorted(sizes, key=lambda entry: -entry.size)

    def clear(self, entries: Sequence[Entry] | None = None) -> int:
        """Delete these entries, or every one; returns how many bytes that freed. An entry disappears whole."""
        entries = self.entries() if entries is None else entries
        for entry in entries:
            aside = entry.path.with_name(f"{BUILDING}deleted-{entry.path.name}")
            entry.path.rename(aside)
            shutil.rmtree(aside)
        return sum(entry.size for entry in entries)


def _said(key: Mapping[str, object]) -> str:
    return json.dumps({"version": VERSION, **key}, sort_keys=True)


def _own(path: Path) -> bool:
    if path.name.startswith(BUILDING) and path.is_dir():
        return time.time() - path.stat().st_mtime > ABANDONED
    return (path / "key.json").is_file()


def _load(place: Path) -> Arrays:
    names = parse_json((place / "key.json").read_text(encoding="utf-8"))["files"]
    if names != sorted(path.name for path in place.glob("*.npy")):
        raise ValueError("other files than its key names")
    return {Path(name).stem: np.load(place / name, mmap_mode="r", allow_pickle=False) for name in names}
