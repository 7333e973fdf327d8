"""Trains what an experiment is missing, and hands over what there is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from gradcast.cluster.cell_task import Cluster
from gradcast.devices import Arithmetic
from gradcast.errors import Diverged, GradcastError
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.drawn_cells import task_by_task
from gradcast.reproduce.error_rates import with_errors
from gradcast.reproduce.experiment import Experiment, Item, load
from gradcast.reproduce.outcome import FAILED, Line, lines
from gradcast.reproduce.quick_rows import shortened
from gradcast.reproduce.saved_rows import known, rows_of
from gradcast.reproduce.trained import Trained
from gradcast.results.quick import QUICK_LOOK
from gradcast.runs.cell_key import digest
from gradcast.runs.directory import PAGE
from gradcast.runs.prepared import Display, Planning, RowObserver
from gradcast.runs.safe_files import locked, make_folder, sweep
from gradcast.runs.seed_store import STORE
from gradcast.specs import text as specfile
from gradcast.specs.spec import Spec
from gradcast.training.loop import Extent, Position

QUICK_SEEDS = 2
RESULT = "result.json"  # of a table
DTYPE: Arithmetic = Spec.model_fields["dtype"].default


@dataclass(frozen=True)
class Request:
    """Which experiment, how much of it, and where its cells lie."""

    experiment: Experiment
    seeds: list[int]
    dtype: Arithmetic
    out: Path
    rows: list[str] = field(default_factory=list)  # none: all
    quick: bool = False
    settings: list[str] = field(default_factory=list)  # what the caller changed, but for the arithmetic
    known: Mapping[str, Trained] = field(default_factory=dict)  # rows of a table saved before
    unknown: list[str] = field(default_factory=list)  # its rows with other settings or seeds
    beside: list[str] = field(default_factory=list)  # rows of the same table, run before: they stay in it

    @property
    def cells(self) -> Path:
        """The folder of all trained settings; rows whose cost is measured are trained for that alone."""
        return self.out / ("cells-alone" if self.experiment.header.alone else "cells")

    @property
    def store(self) -> Path | None:
        """Where seeds of other runs may be; what is trained for its cost is trained anew."""
        return None if self.experiment.header.alone else self.out / STORE

    @property
    def folder(self) -> Path:
        """Where table and figure go; what is no result never takes the place of one."""
        parts = [self.experiment.header.id, *(["quick"] if self.quick else [])]
        parts += [f"changed-{digest(sorted(self.settings))[:6]}"] if self.settings else []
        return self.out / "-".join([*parts, *([] if self.dtype == DTYPE else [self.dtype])])

    @property
    def title(self) -> str:
        """What reports of its cells are headed."""
        return QUICK_LOOK if self.quick else ""

    @property
    def comparable(self) -> bool:
        """Whether published figures are of the same settings."""
        return not self.quick and not self.settings

    def known_seeds(self, item: Item) -> set[int]:
        """Those that need not be trained; none, if what was trained here saw other data.

        A figure of every task needs what a saved table may not say of a seed: then the seed is trained.
        """
        before = self.known.get(item.name)
        if before is None or item.setting is None:
            return set()
        here = Cell(item.setting, self.dtype).data(self.cells)
        told = before.task_numbers if task_by_task(self.experiment) else before.measures
        return {*told, *before.diverged} if here in ("", before.data) else set()

    def missing(self, item: Item, seeds: Sequence[int]) -> list[int]:
        """Those of these seeds of a row that are neither known nor trained here."""
        if item.setting is None:
            return []
        there = self.known_seeds(item) | Cell(item.setting, self.dtype).seeds(self.cells)
        return [seed for seed in seeds if seed not in there]

    def items(self) -> list[Item]:
        """Rows to train: those asked for and those they are compared with, as far as they can be run."""
        chosen = [self.experiment.item(name) for name in self.rows] or list(self.experiment.items)
        bases = [self.experiment.item(item.against) for item in chosen if item.against]
        wanted = {item.name for item in [*chosen, *bases] if item.setting is not None}
        return [item for item in self.experiment.items if item.name in wanted]


def request(
    name: str,
    *,
    out: Path,
    rows: Sequence[str] = (),
    seeds: int | None = None,
    quick: bool = False,
    settings: Sequence[str] = (),
    saved: Path | None = None,
) -> Request:
    """What was asked for, checked; ``settings`` change every row that is asked for, ``dtype`` the arithmetic.

    ``saved`` is the file of this table or of another that shares rows with it: their seeds need not be trained again.
    """
    experiment = shortened(load(name)) if quick else load(name)
    count = seeds or (QUICK_SEEDS if quick else experiment.header.seeds)
    changes: dict[str, Any] = {}
    for setting in settings:
        changes = specfile.assign(changes, setting)
    dtype = changes.pop("dtype", DTYPE)
    if dtype not in get_args(Arithmetic):
        raise GradcastError(f"dtype = {dtype!r} is not valid; it must be {' or '.join(get_args(Arithmetic))}")
    unknown = changes.keys() - specfile.TABLES
    if unknown:
        raise GradcastError(f"--set {min(unknown)!r} is not a setting of a row; use dtype or TABLE.KEY=VALUE")
    for row in rows:
        experiment.item(row)
    own = [setting for setting in settings if not setting.startswith("dtype")]
    asked = Request(experiment, list(range(count)), dtype, out, list(rows), quick, own)
    handed = {} if saved is None else rows_of(saved)
    beside = [*handed, *_saved(asked)]
    changed = experiment.changed(changes, {item.name for item in asked.items()} | set(beside))
    before = {} if saved is None else known(saved, changed, asked.seeds, dtype)
    used, own_rows = {row.cell for row in before.values()}, {item.name for item in experiment.items}
    useless = [name for name, row in handed.items() if name in own_rows and row["trained"]["cell"] not in used]
    return replace(asked, experiment=changed, known=before, unknown=useless, beside=beside)


def _saved(wanted: Request) -> dict[str, Mapping[str, Any]]:
    """Rows of the table that lies where this one will; none where it is not there, or damaged."""
    try:
        return rows_of(wanted.folder / RESULT)
    except GradcastError:
        return {}


def check_known(wanted: Request) -> None:
    """Costs of another machine are no beginning of a table."""
    if wanted.known and wanted.experiment.header.alone:
        raise GradcastError(
            f"{wanted.experiment.header.id} tells costs, which belong to one machine; leave --known out"
        )


def train(
    wanted: Request,
    *,
    data: Path | None,
    device: str,
    display: Display | None,
    cluster: Cluster | None = None,
    trained: Callable[[dict[str, str]], None] | None = None,
) -> dict[str, str]:
    """Every missing seed of every row, here or on a ``cluster``; says of rows that were not trained why.

    ``trained`` is called after each row that lacked seeds, with what is known of rows that failed.
    """
    check_known(wanted)
    failed = {}
    elsewhere = None if cluster is None else _train_on(cluster, wanted, data, device, display)
    groups = [[seed] for seed in wanted.seeds] if wanted.experiment.header.alone else [wanted.seeds]
    if isinstance(display, Planning) and cluster is None:
        display.plan([item.label for item in wanted.items() for seeds in groups if wanted.missing(item, seeds)])
    for item in wanted.items():
        assert item.setting is not None
        lacking = bool(wanted.missing(item, wanted.seeds))
        shown = None if display is None else Named(display, item.label)
        try:
            for seeds in groups * (2 if item.name in wanted.known else 1):  # these may turn out to be of other data
                Cell(item.setting, wanted.dtype).train(
                    [seed for seed in seeds if seed not in wanted.known_seeds(item)],
                    wanted.cells,
                    data,
                    device,
                    shown,
                    wanted.title,
                    store=wanted.store,
                    elsewhere=elsewhere,
                )
        except Diverged as error:
            failed[item.name] = f"diverged: {error}"
        except GradcastError as error:  # a pool that is not there; other rows may have theirs
            failed[item.name] = f"{FAILED}: {error}"
        if lacking and trained is not None:
            trained(failed)
    return failed


def _train_on(
    cluster: Cluster, wanted: Request, data: Path | None, device: str, display: Display | None
) -> dict[str, str]:
    """All cells that are missing, side by side; a sentence for each that failed."""
    if wanted.experiment.header.alone:
        raise GradcastError(f"{wanted.experiment.header.id} tells costs, which belong to one machine; leave --on out")
    from gradcast.cluster.train_ahead import train_ahead  # here: it is large, and seldom needed

    specs = []
    for item in wanted.items():
        assert item.setting is not None
        seeds = [seed for seed in wanted.seeds if seed not in wanted.known_seeds(item)]
        spec = Cell(item.setting, wanted.dtype).missing(seeds, wanted.cells, wanted.title)
        specs += [] if spec is None else [labelled(spec, item.label)]
    return train_ahead(specs, cluster, out=wanted.out, data=data, device=device, display=display)


def labelled(spec: Spec, label: str) -> Spec:
    """The same run whose only row has its name in the table."""
    return spec.model_copy(update={"rows": [spec.rows[0].model_copy(update={"label": label})]})


def outcome(wanted: Request, failed: dict[str, str]) -> list[Line]:
    """All rows, with what is trained of them; other settings say nothing about published figures, or other rows."""
    own = lines(wanted.experiment, wanted.seeds, wanted.dtype, wanted.cells, failed=failed, known=wanted.known)
    found = with_errors(own)
    if wanted.comparable:
        return found
    shown = {*wanted.rows, *wanted.beside, *wanted.known, *(item.name for item in wanted.items())}
    return [replace(line, noise=None) for line in found if not wanted.rows or line.item.name in shown]


@contextmanager
def table_lock(wanted: Request) -> Iterator[None]:
    """Nobody else writes the table meanwhile; what a killed process left half written there goes."""
    make_folder(wanted.folder)
    with locked(wanted.folder / ".lock"):
        sweep(wanted.folder, kept=(PAGE,))
        yield


def unsaved(wanted: Request, found: Sequence[Line]) -> list[str]:
    """Rows of a table saved before with seeds that are neither among these nor in cells: saving would lose them."""
    try:
        rows = _saved(wanted).items()
        before = [(name, str(row["trained"]["cell"]), set(map(int, row["trained"]["seeds"]))) for name, row in rows]
    except (LookupError, TypeError, ValueError):  # nothing that could be lost
        return []
    here = {line.trained.cell: set(line.trained.measures) for line in found if line.trained is not None}
    whole = {line.item.name: line.item.setting for line in found if not line.state.startswith(FAILED)}
    lost = []
    for name, cell, seeds in before:
        setting = whole.get(name)  # what is damaged is not there
        stored = set() if setting is None else Cell(setting, wanted.dtype).seeds(wanted.cells)
        if not seeds <= here.get(cell, set()) | stored:
            lost.append(name)
    return lost


@dataclass(frozen=True)
class Named:
    """A display that calls the only row of a cell by its name in the table."""

    display: Display
    label: str

    @property
    def track(self) -> Callable[..., Any]:
        """As the display does."""
        return self.display.track

    def row(self, label: str, extent: Extent, groups: int = 1, start: Position | None = None) -> RowObserver:
        """The row begins, under its own name."""
        return self.display.row(self.label, extent, groups, start)

    def skipped(self, label: str) -> None:
        """Not worth a word: tables share rows all the time."""
        if isinstance(self.display, Planning):
            self.display.leave_out(self.label)

    def note(self, sentence: str) -> None:
        """As the display does."""
        self.display.note(sentence)
