"""Trains what an experiment is missing, and hands over what there is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from gradcast import specfile
from gradcast.environment import Arithmetic
from gradcast.errors import Diverged, GradcastError
from gradcast.experiments.cells import Cell
from gradcast.experiments.experiment import Experiment, Item, load
from gradcast.experiments.outcome import Line, lines
from gradcast.shared import Display
from gradcast.spec import Spec

QUICK_SEEDS = 2


@dataclass(frozen=True)
class Request:
    """Which experiment, how much of it, and where its cells lie."""

    experiment: Experiment
    seeds: list[int]
    dtype: Arithmetic
    out: Path
    rows: list[str] = field(default_factory=list)  # none: all
    quick: bool = False

    @property
    def cells(self) -> Path:
        """The folder of all trained settings."""
        return self.out / "cells"

    @property
    def folder(self) -> Path:
        """Where table and figure go; quick looks never take the place of results."""
        return self.out / f"{self.experiment.header.id}{'-quick' if self.quick else ''}"

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
) -> Request:
    """What was asked for, checked; ``settings`` change every row, ``dtype`` among them."""
    experiment = load(name)
    count = seeds or (QUICK_SEEDS if quick else experiment.header.seeds)
    changes: dict[str, Any] = {}
    for setting in [*(experiment.header.quick if quick else ()), *settings]:
        changes = specfile.assign(changes, setting)
    dtype = changes.pop("dtype", Spec.model_fields["dtype"].default)
    if dtype not in get_args(Arithmetic):
        raise GradcastError(f"dtype = {dtype!r} is not valid; it must be {' or '.join(get_args(Arithmetic))}")
    unknown = changes.keys() - specfile.TABLES
    if unknown:
        raise GradcastError(f"--set {min(unknown)!r} is not a setting of a row; use dtype or TABLE.KEY=VALUE")
    for row in rows:
        experiment.item(row)
    return Request(experiment.changed(changes), list(range(count)), dtype, out, list(rows), quick)


def train(wanted: Request, *, data: Path | None, device: str, display: Display | None) -> dict[str, str]:
    """Every missing seed of every row; says of rows that diverged where they did."""
    failed = {}
    for item in wanted.items():
        assert item.setting is not None
        shown = None if display is None else Named(display, item.label)
        try:
            Cell(item.setting, wanted.dtype).train(wanted.seeds, wanted.cells, data, device, shown)
        except Diverged as error:
            failed[item.name] = f"diverged: {error}"
    return failed


def outcome(wanted: Request, failed: dict[str, str]) -> list[Line]:
    """The rows asked for, with what is trained of them; short streams say nothing about published figures."""
    found = lines(wanted.experiment, wanted.seeds, wanted.dtype, wanted.cells, rows=wanted.rows, failed=failed)
    return [replace(line, noise=None) for line in found] if wanted.quick else found


@dataclass(frozen=True)
class Named:
    """A display that calls the only row of a cell by its name in the table."""

    display: Display
    label: str

    @property
    def track(self) -> Callable[..., Any]:
        """As the display does."""
        return self.display.track

    def row(self, label: str, steps: int) -> Any:  # noqa: ANN401 -- whatever observer the display makes
        """The row begins, under its own name."""
        return self.display.row(self.label, steps)

    def skipped(self, label: str) -> None:
        """Not worth a word: tables share rows all the time."""
