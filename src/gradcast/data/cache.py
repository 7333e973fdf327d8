"""What was made once and is wanted again: decoded datasets as memory-mapped arrays, and head starts."""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradcast.data.array_file import map_array
from gradcast.data.arrays import UNREADABLE
from gradcast.data.cache_record import RECORD, EntryRecord
from gradcast.data.limits import size_in_words
from gradcast.errors import GradcastError, message_of, warn

Arrays = dict[str, np.ndarray]
BUILDING = ".building-"
VERSION = 2  # of the decoding and of the entries: raised when the same files give other arrays


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

    def fault(self) -> str | None:
        """What is wrong with it, if anything; every byte is read."""
        if self.path.name.startswith(BUILDING):
            return "it was never finished"
        try:
            EntryRecord.read(self.path).check(self.path, whole=True)
        except UNREADABLE as error:
            return message_of(error)
        return None


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

    def find(self, name: str, key: Mapping[str, object], *, whole: bool = False) -> Path | None:
        """The folder under this key, if it is there and as it was written; a damaged one is named and deleted.

        Every byte is looked at where ``whole`` asks for it, otherwise a sample.
        """
        place = self.place(name, key)
        if not place.is_dir():
            return None
        try:
            EntryRecord.read(place).check(place, whole=whole)
        except UNREADABLE as error:
            self.damaged(place, error)
            return None
        return place

    def damaged(self, place: Path, error: BaseException) -> None:
        """Say what is wrong with an entry, and delete it."""
        warn(f"the cache entry {place} is damaged ({message_of(error)}) and is made anew")
        shutil.rmtree(place, ignore_errors=True)

    def put(self, name: str, key: Mapping[str, object], build: Callable[[Path], None]) -> None:
        """Any files under this key, made in a folder."""
        try:
            self._build(self.place(name, key), key, build)
        except (OSError, ValueError) as error:
            raise GradcastError(self._explain(error)) from None

    def get(self, name: str, key: Mapping[str, object], build: Callable[[Path], None]) -> Arrays:
        """The arrays under this key, built into a folder as .npy files where they are not there yet."""
        place = self.find(name, key)
        if place is not None:
            try:
                return _load(place)
            except UNREADABLE as error:
                self.damaged(place, error)
        self.put(name, key, build)
        try:
            return _load(self.place(name, key))
        except UNREADABLE as error:
            raise GradcastError(
                f"the cache entry {self.place(name, key)} cannot be read ({message_of(error)}); "
                "set GRADCAST_CACHE to another folder"
            ) from None

    def reserve(self, size: int, what: str) -> None:
        """Refuse what would not fit on the disk, before the work of making it."""
        self.sweep()
        place = next(folder for folder in (self.root, *self.root.parents) if folder.exists())
        free = shutil.disk_usage(place).free
        if size > free:
            raise GradcastError(
                f"{what} takes {size_in_words(size)} in the cache {self.root}, where {size_in_words(free)} are free; "
                "free some space there or set GRADCAST_CACHE to another folder"
            )

    def sweep(self) -> None:
        """Delete what builders left that were killed."""
        for entry in self.entries():
            if entry.path.name.startswith(BUILDING):
                shutil.rmtree(entry.path, ignore_errors=True)

    def _explain(self, error: OSError | ValueError) -> str:
        file, number = getattr(error, "filename", None), getattr(error, "errno", None)
        reason = getattr(error, "strerror", None) or error
        own = isinstance(file, str) and (Path(file).is_relative_to(self.root) or self.root.is_relative_to(file))
        if isinstance(file, str) and not own:
            return f"{file} cannot be read ({reason})"
        full = number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "free some space there or set" if full else "set"
        return f"the cache {self.root} cannot be written ({reason}); {remedy} GRADCAST_CACHE to another folder"

    def _build(self, place: Path, key: Mapping[str, object], build: Callable[[Path], None]) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=BUILDING, dir=self.root))
        try:
            with _locked(beside):
                build(beside)
                EntryRecord.write(beside, _versioned(key))
                beside.rename(place)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # somebody else was faster, which is fine
                raise
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def entries(self) -> list[Entry]:
        """What is there, largest first; abandoned builds included, nothing that is not the cache's own."""
        folders = [path for path in self.root.iterdir() if _own(path)] if self.root.is_dir() else []
        return sorted((Entry(path, _size(path)) for path in folders), key=lambda entry: -entry.size)

    def clear(self, entries: Sequence[Entry] | None = None) -> int:
        """Delete these entries, or every one; returns how many bytes that freed. An entry disappears whole."""
        entries, freed = self.entries() if entries is None else entries, 0
        for entry in entries:
            aside = entry.path.with_name(f"{BUILDING}deleted-{entry.path.name}")
            try:
                entry.path.rename(aside)
                shutil.rmtree(aside)
            except FileNotFoundError:  # somebody else was faster
                continue
            except OSError as error:
                raise GradcastError(
                    f"{entry.path} cannot be deleted ({message_of(error)}); delete it by hand, or ask its owner"
                ) from None
            freed += entry.size
        return freed


def _versioned(key: Mapping[str, object]) -> dict[str, object]:
    return {"version": VERSION, **key}


def _said(key: Mapping[str, object]) -> str:
    return json.dumps(_versioned(key), sort_keys=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Others see that somebody builds here, until this process ends, however that is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks: nobody can tell
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _abandoned(folder: Path) -> bool:
    """Whether no process builds here any more."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _own(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    if path.name.startswith(BUILDING):
        return _abandoned(path)
    return (path / RECORD).is_file() or re.fullmatch(r".+-[0-9a-f]{16}", path.name) is not None


def _size(folder: Path) -> int:
    found = 0
    with suppress(OSError):  # somebody deletes it meanwhile
        found = sum(file.lstat().st_size for file in folder.rglob("*"))
    return found


def _load(place: Path) -> Arrays:
    """The arrays of an entry, mapped."""
    paths = sorted(place.glob("*.npy"))
    return {path.stem: map_array(path) for path in paths}
