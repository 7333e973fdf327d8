"""A cell as a task for a worker: one row and a group of its seeds, and all that the worker must know."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradcast.errors import GradcastError
from gradcast.runs.cell_key import CellKey, digest
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.specs.spec import Row, Spec

Files = dict[str, bytes]  # of a folder, by names relative to it


@dataclass(frozen=True)
class Cluster:
    """Where cells are trained, and in which portions: what ``--on`` and the options beside it say."""

    on: str  # "ray", or "ray://HOST:PORT"
    threads: int | None = None  # of each worker; None: one
    at_once: int | None = None  # seeds of a cell, at most; None: all of a row


@dataclass(frozen=True)
class Conditions:
    """What all tasks of a command have in common."""

    folder: Path  # in which the command was given
    data: Path  # folder of datasets, the same on every node
    device: str
    threads: int
    safety: Safety
    versions: dict[str, str | None]  # that a worker must have
    environment: dict[str, str] = field(default_factory=dict)  # variables that gradcast reads
    source: Any = None  # images of the caller's own, where the specification says so
    pool: Any = None


@dataclass(frozen=True)
class CellTask:
    """A task for a worker: one row with some of its seeds."""

    spec: Spec  # of one row and these seeds
    key: CellKey
    gpus: float = 0.0  # share of one

    @property
    def name(self) -> str:
        """By cell and seeds: where its checkpoints are kept on the way."""
        return f"{self.key.name}-{digest(self.spec.seeds)}"

    @property
    def label(self) -> str:
        """As the progress display calls it."""
        row, seeds = self.spec.rows[0], self.spec.seeds
        return f"{row.label}, {'seed' if len(seeds) == 1 else 'seeds'} {_range(seeds)}"


def cell_tasks(spec: Spec, row: Row, key: CellKey, missing: Sequence[int], at_once: int | None) -> Iterator[CellTask]:
    """The seeds of a row that are to be trained, in groups of at most ``at_once``, or all together."""
    size = at_once or len(missing)
    for start in range(0, len(missing), max(size, 1)):
        seeds = list(missing[start : start + size])
        own = spec.model_copy(update={"seeds": seeds, "rows": [row.model_copy(update={"control": None})]})
        yield CellTask(own, key)


def packed(folder: Path) -> Files:
    """All files of a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def unpack(files: Files, folder: Path) -> None:
    """Write them below a folder, and nowhere else."""
    root = folder.resolve()
    for name, content in files.items():
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise GradcastError(f"a worker sent a file {name!r}, which lies outside of its folder; it is not trusted")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _range(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))
