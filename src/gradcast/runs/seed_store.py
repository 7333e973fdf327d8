"""The store: every trained seed, found again by what decides its result.

CELL/cell.json                                  the facts of its key
CELL/seed-N/trained.json                        where and when it was trained, digests of its files; or why it diverged
CELL/seed-N/metrics.jsonl  accuracy.csv ...     the files of the seed, which are those of the run that trained it

Files are hard links to those of run directories, so that they take no room twice; copies where links are not possible.
A seed appears whole or not at all: it is put together beside its place and renamed.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from gradcast.errors import GradcastError, message_of, warn
from gradcast.runs.cell_key import CellKey
from gradcast.runs.jsontext import to_json
from gradcast.runs.manifest import Entry, SeedFileName, Share, check_entries
from gradcast.runs.safe_files import locked, make_folder, refuse_links, write_text
from gradcast.runs.sealed import Schema, read_sealed, write_sealed

STORE = "store"  # the folder beside run directories
TRAINED, CELL = "trained.json", "cell.json"
BUILDING = ".building-"
FEATURES = "features.json"  # a row has them of its first seed alone


class TrainedSeed(Schema):
    """What is known of a seed beside its files."""

    seed: int
    origin: dict[str, Any]  # env.json of the row as it was trained
    undone: Share = 0.0  # of its steps, which were not finite
    diverged: str = ""  # the reason why there is no result
    files: dict[SeedFileName, Entry] = Field(default_factory=dict)


@dataclass(frozen=True)
class StoredCell:
    """One cell as a listing shows it."""

    name: str
    seeds: list[int]
    size: int  # bytes


class SeedStore:
    """A folder of cells."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, key: CellKey, seed: int) -> TrainedSeed | None:
        """A seed of a cell, if it is there and every byte is as it was written; a damaged one is named and deleted."""
        return self._checked(self.path / key.name / f"seed-{seed}", seed)

    def seeds(self, key: CellKey) -> set[int]:
        """The seeds of a cell, unchecked."""
        return set(self._seeds(self.path / key.name))

    def _checked(self, place: Path, seed: int) -> TrainedSeed | None:
        if not place.is_dir():
            return None
        try:
            refuse_links(place)
            found = read_sealed(place / TRAINED, TrainedSeed)
            if found.seed != seed:
                raise ValueError("it is of another seed")
            check_entries(place, found.files)
        except (OSError, ValueError, GradcastError) as error:
            warn(f"{place} is damaged ({_fault(error)}) and is trained anew")
            shutil.rmtree(place, ignore_errors=True)
            return None
        return found

    def link(self, key: CellKey, found: TrainedSeed, folder: Path, *, first: bool) -> dict[str, Entry]:
        """The seed's files in a folder of a run, which had none; their entries. The ``first`` seed has features."""
        place, names = self.path / key.name / f"seed-{found.seed}", dict(found.files)
        if not first:
            names.pop(FEATURES, None)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in names:
            link_or_copy(place / name, folder / name)
        return names

    def keep(self, key: CellKey, trained: TrainedSeed, folder: Path) -> None:
        """Take a seed's files out of its folder of a run, or the fact that it diverged; what is there already stays."""
        place = self.path / key.name / f"seed-{trained.seed}"
        if (place / TRAINED).is_file():
            return
        make_folder(self.path)
        with self._locked():
            make_folder(place.parent)
            if not (place.parent / CELL).is_file():
                write_text(place.parent / CELL, to_json(key.facts))
            self._put(place, trained, folder)

    def _put(self, place: Path, trained: TrainedSeed, folder: Path) -> None:
        beside = Path(tempfile.mkdtemp(prefix=BUILDING, dir=place.parent))
        try:
            beside.chmod(place.parent.stat().st_mode)
            for name in trained.files:
                link_or_copy(folder / name, beside / name)
            write_sealed(beside / TRAINED, trained)
            shutil.rmtree(place, ignore_errors=True)  # what somebody left there is no seed
            beside.rename(place)
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    def merge(self, other: "SeedStore") -> list[tuple[str, int]]:
        """Copy what the other store has and this one lacks, if it is whole; cells and seeds that came."""
        came = []
        for cell in other.cells():
            for seed in cell.seeds:
                source, place = (store.path / cell.name / f"seed-{seed}" for store in (other, self))
                if (place / TRAINED).is_file():
                    continue
                found = _readable(source, seed)
                make_folder(place.parent.parent)
                with self._locked():
                    make_folder(place.parent)
                    if not (place.parent / CELL).is_file():
                        shutil.copyfile(other.path / cell.name / CELL, place.parent / CELL)
                    self._put(place, found, source)
                came.append((cell.name, seed))
        return came

    def cells(self) -> list[StoredCell]:
        """All that is there, by name."""
        places = sorted(path for path in self.path.glob("*") if (path / CELL).is_file() and not path.is_symlink())
        return [StoredCell(place.name, self._seeds(place), _size(place)) for place in places]

    def _seeds(self, place: Path) -> list[int]:
        names = (path.parent.name for path in place.glob(f"seed-*/{TRAINED}"))
        return sorted(int(name.removeprefix("seed-")) for name in names if name.removeprefix("seed-").isdigit())

    def remove(self, names: Sequence[str]) -> int:
        """Delete these cells; the bytes that they had. What run directories share with them stays there."""
        freed = 0
        with self._locked():
            for name in names:
                freed += _size(self.path / name)
                shutil.rmtree(self.path / name)
        return freed

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Nobody else writes meanwhile; what a killed process left half built goes."""
        with locked(self.path / ".lock"):
            for left in self.path.glob(f"*/{BUILDING}*"):
                shutil.rmtree(left, ignore_errors=True)
            yield


def _readable(place: Path, seed: int) -> TrainedSeed:
    """A seed of another machine's store, checked; a sentence where it is damaged."""
    try:
        refuse_links(place)
        found = read_sealed(place / TRAINED, TrainedSeed)
        check_entries(place, found.files)
    except (OSError, ValueError, GradcastError) as error:
        raise GradcastError(f"{place} cannot be merged ({_fault(error)}); copy it again, or delete it") from None
    return found


def _fault(error: Exception) -> str:
    """What is wrong, without the remedy for a file of a run."""
    return message_of(error).partition(";")[0]


def link_or_copy(file: Path, place: Path) -> None:
    """One more name of a file; a copy where the file system has no hard links, or it is another one."""
    try:
        os.link(file, place)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(file, place)


def _size(place: Path) -> int:
    return sum(file.lstat().st_size for file in place.rglob("*") if file.is_file())
