"""Runs as far as their directories tell: finished rows, rows on their way, and what cannot be read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Int

from gradcast.errors import GradcastError
from gradcast.results import result
from gradcast.results.feature_map import FeatureMap
from gradcast.results.history import when_tested
from gradcast.results.report.beside import (
    StepsAndSeeds,
    environment,
    feature_map,
    follow_links,
    head_starts,
    stream,
    whole,
)
from gradcast.results.report.progress import accuracy_so_far, metrics_so_far, over_seen_tasks
from gradcast.results.result import COURSES, Courses, RowResult, courses
from gradcast.runs.directory import RunDirectory
from gradcast.runs.seed_store import STORE
from gradcast.runs.step_log import Line
from gradcast.specs.spec import Row, Spec

TABLE = "table.md"  # of gradcast reproduce: lies beside the run directories of its rows
REMEDY = "name a run directory, the folder given to gradcast run --out, or that of a table, as in runs/E1"


@dataclass(frozen=True)
class RowState:
    """One row, as far as it has come."""

    name: str
    label: str
    place: int  # in the specification
    finished: bool
    done: list[int]  # tasks behind each seed; -1 before its first evaluation
    tasks: int
    curves: Courses  # "accuracy", "loss" and the courses of a signal, by name
    environment: str  # env.json as it stands; empty until the row is finished
    time: dict[str, object]
    flaw: str = ""  # a sentence, where something of it cannot be read
    tests: Int[np.ndarray, " tests"] | None = None  # where labels are few: the steps that end in one
    head_start: StepsAndSeeds = field(default_factory=dict)
    feature_map: FeatureMap | None = None  # of the first seed, where the row is finished and has one
    diverged: Mapping[int, str] = field(default_factory=dict)  # seeds that have no result, and why


@dataclass(frozen=True)
class Run:
    """A run directory: its specification, and the rows that can be read."""

    path: Path
    spec: Spec
    text: str  # spec.toml
    rows: list[RowState]  # that can be read
    results: list[RowResult]  # of the finished ones
    left_out: list[str]  # a sentence for every other row

    @property
    def family(self) -> int:
        """Claims that its verdicts are corrected for, those of other runs too where all are parts of a table."""
        return max((own.family for row in self.results for own in row.comparisons), default=0)

    @property
    def name(self) -> str:
        """The name of the run's directory."""
        return self.path.resolve().name

    def place(self, own: RowResult) -> int:
        """Where a result's row stands in the specification."""
        return next(row.place for row in self.rows if row.name == own.name)

    @property
    def few_labels(self) -> bool:
        """Whether it is one task with few labels, and no stream of tasks."""
        return self.spec.rows[0].setting.one_task is not None

    @property
    def base(self) -> RowResult | None:
        """The first row of the specification, where it is finished and whole."""
        return next((own for own in self.results if own.name == self.spec.rows[0].name), None)

    @property
    def damage(self) -> list[str]:
        """A sentence for everything that is missing."""
        return [*self.left_out, *(row.flaw for row in self.rows if row.flaw)]

    @property
    def unfinished(self) -> list[RowState]:
        """Rows that are not trained to their end."""
        return [row for row in self.rows if not row.finished]


@dataclass(frozen=True)
class Found:
    """What a folder holds."""

    folder: Path
    runs: list[Run]
    left_out: list[str]  # a sentence for every run that cannot be read

    @property
    def damage(self) -> list[str]:
        """A sentence for everything that is missing."""
        return [*self.left_out, *(sentence for run in self.runs for sentence in run.damage)]


def find(folder: Path) -> list[Path]:
    """The folder itself, where it is a run directory; else those that lie in it."""
    if folder.is_file():
        raise GradcastError(f"{folder} is a file; {REMEDY}")
    return [folder] if _is_run(folder) else [path for path in sorted(folder.glob("*")) if _is_run(path)]


def read_runs(folder: Path, before: Sequence[Run] = ()) -> Found:
    """All runs that can be read; their rows that were finished ``before`` are not read again."""
    earlier = {run.path: run for run in before}
    found = Found(folder, [], [])
    for path in find(folder):
        try:
            found.runs.append(read_run(path, earlier.get(path)))
        except GradcastError as error:
            found.left_out.append(f"{path.resolve().name} is left out: {error}")
    if not found.runs:
        nothing = f"there is no {'run in' if folder.is_dir() else 'folder'} {folder}; {REMEDY}"
        raise GradcastError(found.left_out[0] if found.left_out else nothing)
    return found


def read_run(path: Path, before: Run | None = None) -> Run:
    """One run; a row that cannot be read is left out with a sentence."""
    directory = RunDirectory(path)
    spec = directory.spec
    text = (path / "spec.toml").read_text(encoding="utf-8")
    known = {row.name: row for row in before.rows if row.finished} if before and before.text == text else {}
    rows: list[RowState] = []
    left_out: list[str] = []
    for place, row in enumerate(spec.rows):
        try:
            rows.append(known.get(row.name) or _row(directory, spec, place, row))
        except GradcastError as error:
            left_out.append(f"The row {row.label!r} is left out: {error}")
    sound = {row.name for row in rows if row.finished}
    results = before.results if before and known.keys() == sound else result.read(directory, rows=sound, lenient=True)
    return Run(path, spec, text, rows, results, left_out)


def _row(directory: RunDirectory, spec: Spec, place: int, row: Row) -> RowState:
    follow_links(directory, spec, row)
    tasks, finished, flaws = row.setting.stream.task_count, directory.finished(row.name), list[str]()
    diverged = directory.diverged(row.name)
    seeds = [seed for seed in spec.seeds if seed not in diverged]
    if finished:
        matrices = [directory.accuracy(row.name, seed, tasks) for seed in seeds]
        metrics = _logs(directory, seeds, row, flaws)
        done = [tasks] * len(seeds)
    else:
        places = [directory.seed(row.name, seed) for seed in spec.seeds]
        matrices = [accuracy_so_far(own / "accuracy.csv", tasks) for own in places]
        metrics = (metrics_so_far(own / "metrics.jsonl", tasks) for own in places)
        done = [int((~np.isnan(matrix).any(1)).sum()) - 1 for matrix in matrices]
    short, curves = row.setting.one_task, courses(row.setting, metrics, ("loss", *COURSES))
    without = directory.accuracies(row.name, seeds, tasks, unknown=True) if finished else None
    for name, own in (("accuracy", matrices), ("accuracy_unknown_task", without)):
        accuracy = None if own is None else np.stack([over_seen_tasks(matrix) for matrix in own])
        if short is None and accuracy is not None and not np.isnan(accuracy).all():
            curves[name] = accuracy
    text, time, flaw = environment(directory, row.name) if finished else ("", {}, "")
    drawn, damage = feature_map(directory, row.name, seeds[0]) if finished else (None, "")
    begun = finished and row.setting.head_start.steps > 0
    ahead, unread = head_starts(directory, row.name, seeds) if begun else ({}, "")
    unknown = [stream(directory, row.name), whole(directory, row.name)] if finished else []
    flaw = " ".join(filter(None, (*flaws, flaw, damage, unread, *unknown)))
    tests = None if short is None else when_tested(short)
    rest = (tests, ahead, drawn, diverged)
    return RowState(row.name, row.label, place, finished, done, tasks, curves, text, time, flaw, *rest)


def _logs(directory: RunDirectory, seeds: Sequence[int], row: Row, flaws: list[str]) -> Iterator[list[Line]]:
    """One seed's steps at a time, for they are many; what is wrong with them goes to ``flaws``."""
    for seed in seeds:
        lines, flaw = result.logged(directory, row, seed, lenient=True)
        flaws += [flaw] * bool(flaw)
        yield lines


def _is_run(path: Path) -> bool:
    """A run directory, also one that lost its specification; the store of trained seeds beside it is none."""
    return (path / "spec.toml").is_file() or (path.name != STORE and any(path.glob("*/seed-*")))
