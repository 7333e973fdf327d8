"""The run directories below a folder, as a listing shows them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gradcast.errors import GradcastError
from gradcast.runs.directory import RunDirectory
from gradcast.runs.jsontext import parse_json
from gradcast.runs.reuse import CELL

SPEC = "spec.toml"


@dataclass(frozen=True)
class RunSummary:
    """A run directory in one line: rows, seeds and size."""

    name: str  # relative to the folder
    rows: int
    finished: int  # rows
    seeds: list[int]
    size: int  # bytes, shared with the store where files are the same


def run_directories(folder: Path) -> Iterator[RunDirectory]:
    """All below a folder, those of published tables' cells too; views of tables consist of links and are left out."""
    for spec in sorted([*folder.glob(f"*/{SPEC}"), *folder.glob(f"cells*/*/{SPEC}")]):
        if not any(entry.is_symlink() for entry in spec.parent.glob("*/seed-*")):
            yield RunDirectory(spec.parent)


def summaries(folder: Path) -> list[RunSummary]:
    """One a directory; those whose specification cannot be read have no rows."""
    found = []
    for directory in run_directories(folder):
        size = sum(file.lstat().st_size for file in directory.path.rglob("*") if file.is_file())
        name = directory.path.relative_to(folder).as_posix()
        try:
            spec = directory.spec
        except GradcastError:
            found.append(RunSummary(name, 0, 0, [], size))
            continue
        finished = sum(directory.finished(row.name) for row in spec.rows)
        found.append(RunSummary(name, len(spec.rows), finished, spec.seeds, size))
    return found


def used_cells(folder: Path) -> set[str]:
    """Names of cells that finished rows are made of."""
    found = set()
    for directory in run_directories(folder):
        for file in directory.path.glob("*/env.json"):
            try:
                facts = parse_json(file.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            if isinstance(facts, dict) and isinstance(facts.get(CELL), str):
                found.add(facts[CELL])
    return found
