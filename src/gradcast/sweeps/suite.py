"""A suite: runs and sweeps of one file, trained one after another, with one report of all."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from gradcast.cluster.cell_task import Cluster
from gradcast.errors import GradcastError, message_of
from gradcast.results.report.read import Found, read_run
from gradcast.results.report.write import write_html
from gradcast.results.run_result import RunResult
from gradcast.runs import run as runs
from gradcast.runs.api import progress_display
from gradcast.specs.spec import LONGEST_NAME, Spec
from gradcast.specs.table import Positive, Table, nearest
from gradcast.specs.text import load, run_name
from gradcast.sweeps.request import SweepTable, mistake, requested
from gradcast.sweeps.sweep import sweep

REPORT = "report.html"
KINDS = ("run", "sweep")


class RunEntry(Table):
    """A table ``[[run]]``: a run of the suite."""

    what: str  # a preset, or a file beside the suite
    set: list[str] = []  # settings to change, as --set has them
    seeds: Positive | None = None  # 0 to N-1; left out: those of the specification


class SweepEntry(SweepTable):
    """A table ``[[sweep]]``: a sweep of the suite."""

    what: str  # a preset, or a file beside the suite
    set: list[str] = []  # settings to change, as --set has them


class SuiteTable(Table):
    """The file of a suite: its runs and sweeps."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=LONGEST_NAME)]  # of its report's folder
    run: list[RunEntry] = []  # what is trained as it is
    sweep: list[SweepEntry] = []  # what is tuned first


@dataclass(frozen=True)
class Part:
    """A run or a sweep with its specification."""

    title: str  # in messages
    spec: Spec
    asked: SweepTable | None = None  # of a sweep


@dataclass(frozen=True)
class Suite:
    """All parts of a file."""

    name: str
    parts: Sequence[Part]


@dataclass
class SuiteResult:
    """What became of a suite: a result of every part that has one, a sentence for every other."""

    report: Path | None = None  # None where every part failed
    results: dict[str, RunResult] = field(default_factory=dict)
    cautions: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def read_suite(file: Path) -> Suite:
    """The suite in a file; every specification is read, so that mistakes show before anything is trained."""
    try:
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise GradcastError(f"the suite {file} does not exist; name a TOML file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise GradcastError(f"{file} is not valid TOML: {message_of(error)}") from None
    table = _checked({"name": run_name(file.stem), **raw})
    each = [(kind, number, own) for kind in KINDS for number, own in enumerate(getattr(table, kind), 1)]
    if not each:
        raise GradcastError(f"{file} lists nothing; add a [[run]] or a [[sweep]] with what = PRESET or FILE")
    return Suite(table.name, [_part(kind, number, own, file.parent) for kind, number, own in each])


def run_suite(
    suite: Suite,
    *,
    out: Path,
    data: Path | str | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: bool | None = None,
    on: str | None = None,
    at_once: int | None = None,
) -> SuiteResult:
    """Train what is missing; a part that fails does not stop the others."""
    made = SuiteResult()
    common: dict[str, Any] = {"out": out, "data": data, "device": device}
    elsewhere = None
    plain = [part for part in suite.parts if part.asked is None]
    if on is not None and plain:  # all runs side by side
        from gradcast.cluster.train_ahead import train_ahead  # here: Ray is loaded where it is used

        with progress_display(progress) as display:
            elsewhere = train_ahead(
                [part.spec for part in plain], Cluster(on, threads, at_once), display=display, **common
            )

    def train(part: Part) -> RunResult:
        if part.asked is None:
            with progress_display(progress) as display:
                directory, rows = runs.run(
                    part.spec, display=display if on is None else None, elsewhere=elsewhere, **common
                )
            return RunResult(directory.path, rows)
        asked = part.asked.model_dump(exclude={"over"})
        how: dict[str, Any] = {"threads": threads if on else None, "progress": progress, "on": on, "at_once": at_once}
        found = sweep(part.spec, part.asked.over, **asked, **how, **common)
        made.cautions += [f"{part.title}: {found.caution}"] if found.caution else []
        return found.result

    for part in suite.parts:
        _attempt(part, train, made)
    if made.results:
        made.report = _report(suite, made, out)
    return made


def _attempt(part: Part, train: Callable[[Part], RunResult], made: SuiteResult) -> None:
    try:
        made.results[part.title] = train(part)
    except GradcastError as error:
        made.failed.append(f"{part.title}: {error}")


def _report(suite: Suite, made: SuiteResult, out: Path) -> Path:
    """One page of all runs, those of sweeps among them; a run that two parts share appears once."""
    folder = out / f"suite-{suite.name}"
    paths = dict.fromkeys(result.directory for result in made.results.values())
    write_html(Found(folder, [read_run(path) for path in paths], []), folder / REPORT)
    return folder / REPORT


def _checked(raw: dict[str, Any]) -> SuiteTable:
    known: dict[str, type[Table]] = {"run": RunEntry, "sweep": SweepEntry}
    for kind, table in known.items():
        listed = raw.get(kind, [])
        if not isinstance(listed, list) or not all(isinstance(own, dict) for own in listed):
            raise GradcastError(f"{kind!r} must be a list of tables; write each as [[{kind}]]")
        for own in listed:
            try:
                table.model_validate(own)
            except ValidationError as error:
                raise GradcastError(mistake(error, list(table.model_fields), kind)) from None
    for key in raw:
        if key not in SuiteTable.model_fields:
            raise GradcastError(f"unknown key {key!r}{nearest(key, SuiteTable.model_fields)}")
    try:
        return SuiteTable.model_validate(raw)
    except ValidationError as error:
        raise GradcastError(mistake(error, list(SuiteTable.model_fields), "suite")) from None


def _part(kind: str, number: int, own: RunEntry | SweepEntry, folder: Path) -> Part:
    title = f"{kind} {number} ({own.what})"
    what = str(folder / own.what) if own.what.endswith(".toml") else own.what
    try:
        if isinstance(own, SweepEntry):
            asked = requested(own.model_dump(exclude={"what", "set"}))
            return Part(title, load(what, own.set), asked)
        seeds = [] if own.seeds is None else [f"seeds={list(range(own.seeds))}"]
        if seeds and any(setting.partition("=")[0].strip() == "seeds" for setting in own.set):
            raise GradcastError("seeds is given twice; leave one of them out")
        return Part(title, load(what, [*own.set, *seeds]))
    except GradcastError as error:
        raise GradcastError(f"{title}: {error}") from None
