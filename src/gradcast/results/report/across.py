"""Several runs in one report: what differs between them, and all their rows in one table."""

from collections.abc import Sequence

from gradcast.results.report.blocks import Section
from gradcast.results.report.read import Run
from gradcast.results.report.tables import Cell, Table, estimate, figure
from gradcast.results.report.words import measured, measured_without_task
from gradcast.results.statistics import Interval
from gradcast.specs.differences import differing

NAME = "all-runs"  # of the section, and of the folder with its tables


def across(runs: Sequence[Run]) -> Section | None:
    """Both tables; None for a single run."""
    if len(runs) < 2:
        return None
    differences = differences_between(runs)
    same = "All runs have the same settings in their first rows; data, seeds or other rows differ."
    return Section(NAME, "All runs", [differences if differences.rows else same, rows_of_all(runs)])


def differences_between(runs: Sequence[Run]) -> Table:
    """Settings of the runs' first rows that are not the same everywhere, with arithmetic and seeds."""
    found: dict[str, Sequence[str]] = {
        "dtype": [run.spec.dtype for run in runs],
        "seeds": [", ".join(map(str, run.spec.seeds)) for run in runs],
        **differing([run.spec.rows[0].setting for run in runs]),
    }
    rows = [[Cell(key), *map(Cell, values)] for key, values in found.items() if len(set(values)) > 1]
    return Table("settings", "Settings that differ, in the first row of each run", ["setting", *_names(runs)], rows)


def rows_of_all(runs: Sequence[Run]) -> Table:
    """Every finished row of every run with its measures; rows of different data or tasks are not comparable."""
    finished = [
        (run.name, own, {**measured(own), **without})
        for run in runs
        for own, without in zip(run.results, measured_without_task(run.results), strict=True)
    ]
    heads = list(dict.fromkeys(head for _, _, told in finished for head in told))
    rows = [
        [
            Cell(own.label),
            Cell(run),
            figure(len(own.seeds), "d"),
            *(_estimate(told.get(head)) for head in heads),
            Cell(own.paired.verdict if own.paired else ""),
        ]
        for run, own, told in finished
    ]
    title = "Mean over seeds ± half of the 95 % confidence interval; verdicts are those of each run"
    return Table("rows", title, ["row", "run", "seeds", *heads, "against the run's first row"], rows)


def _estimate(value: tuple[Interval, float, int | None] | None) -> Cell:
    return Cell() if value is None else estimate(*value)


def _names(runs: Sequence[Run]) -> list[str]:
    return [run.name for run in runs]
