"""Decoded datasets, kept as memory-mapped arrays so that the second start reads no image file."""

import errno
import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradcast.errors import GradcastError

Arrays = dict[str, np.ndarray]
BUILDING = ".building-"


def default_cache() -> Path:
    """$GRADCAST_CACHE, or a folder for gradcast in the user's cache directory."""
    own = os.environ.get("GRADCAST_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    return Path(own) if own else Path(shared) / "gradcast"


@dataclass(frozen=True)
class Entry:
    """One cached dataset."""

    path: Path
    size: int  # bytes


class Cache:
    """A folder of folders of .npy files, one for each content and set of options.

    An entry appears whole or not at all: it is built beside its place and renamed. Two processes that build the same
    one do the work twice, and the second finds the first one's result in place and uses it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, name: str, key: Mapping[str, object], build: Callable[[Path], None]) -> Arrays:
        """The arrays under this key, built into a folder as .npy files where they are not there yet."""
        digest = hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=8).hexdigest()
        place = self.root / f"{name}-{digest}"
        if place.is_dir():
            try:
                return _load(place)
            except (OSError, ValueError, EOFError) as error:
                warnings.warn(f"the cache entry {place} is damaged ({error}) and is made anew", stacklevel=2)
                shutil.rmtree(place, ignore_errors=True)
        try:
            self._build(place, key, build)
            return _load(place)
        except OSError as error:
            raise GradcastError(
                f"the cache {self.root} cannot be written ({error.strerror or error}); "
                "free some space there or set GRADCAST_CACHE to another folder"
            ) from None

    def _build(self, place: Path, key: Mapping[str, object], build: Callable[[Path], None]) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=BUILDING, dir=self.root))
        try:
            build(beside)
            (beside / "key.json").write_text(json.dumps(key, sort_keys=True, indent=2) + "\n")
            beside.rename(place)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # somebody else was faster, which is fine
                raise
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def entries(self) -> list[Entry]:
        """What is there, largest first; abandoned builds included."""
        folders = [path for path in self.root.iterdir() if path.is_dir()] if self.root.is_dir() else []
        sizes = [Entry(path, sum(file.stat().st_size for file in path.iterdir())) for path in folders]
        return sorted(sizes, key=lambda entry: -entry.size)

    def clear(self) -> int:
        """Delete every entry; returns how many bytes that freed."""
        entries = self.entries()
        for entry in entries:
            shutil.rmtree(entry.path)
        return sum(entry.size for entry in entries)


def _load(place: Path) -> Arrays:
    return {path.stem: np.load(path, mmap_mode="r", allow_pickle=False) for path in sorted(place.glob("*.npy"))}
