"""Runs in words: what they say, and what is not there yet."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from gradcast.results.quick import QUICK_LOOK, mark
from gradcast.results.report.read import Found, RowState, Run
from gradcast.results.report.words import UNEQUAL, counted, measured, number, trained_on, without_task
from gradcast.results.result import UNKNOWN, RowResult
from gradcast.results.statistics import Interval
from gradcast.results.verdict import Kind

OWN_POOLS = {"unlabelled": "the tasks' own", "held-out": "the tasks' own, held out"}  # pools by what they hold


@dataclass(frozen=True)
class Finding:
    """What one row says; without a row, what the run does not say."""

    kind: Kind
    label: str
    sentence: str
    difference: Interval | None = None
    value: str = ""  # what the row measures, mean ± half of the interval


def heading(found: Found) -> str:
    """The title of the report; several runs that are quick looks say so together."""
    first, *others = found.runs
    if not others:
        return first.spec.title or first.name
    several = f"{len(found.runs)} runs in the folder {found.folder.resolve().name}"
    return f"{QUICK_LOOK}: {several}" if all(mark(run.spec) for run in found.runs) else several


def counts(runs: Sequence[Run]) -> str:
    """How much there is, and how much of it is finished."""
    rows = sum(len(run.spec.rows) for run in runs)
    finished = sum(len(run.results) for run in runs)
    seeds = sorted({len(run.spec.seeds) for run in runs})
    each = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    state = "all finished" if finished == rows else f"{finished} of them finished"
    return f"{counted(len(runs), 'run')}, {counted(rows, 'row')} of {each}, {state}."


def facts(run: Run) -> list[str]:
    """What was run, in a few words each."""
    setting = run.spec.rows[0].setting
    found = [
        trained_on(setting),
        setting.model.name,
        counted(len(run.spec.seeds), "seed"),
        run.spec.dtype,
    ]
    settings = [row.setting for row in run.spec.rows]
    pools = {own.pool[own.pool_of(signal.pool)].name for own in settings for signal in own.signals}
    return [*found, *(f"unlabelled images: {OWN_POOLS.get(name, name)}" for name in sorted(pools))]


def findings(run: Run) -> list[Finding]:
    """A verdict for each finished row but the first, or why there is none."""
    base = run.base
    if not run.results:
        return [Finding("open", "", "no row is finished yet, there is nothing to compare")]
    if base is None:
        return [Finding("open", "", f"nothing is compared, for the first row, {run.spec.rows[0].label}, is missing")]
    others = [own for own in run.results if own is not base]
    if not others:
        alone = "the other rows are not finished yet" if run.unfinished else "one row, nothing to compare it with"
        return [Finding("open", base.label, alone)]
    against_first = [
        Finding("open", own.label, UNEQUAL, value=headline_measure(own)[1])
        if own.paired is None
        else Finding(own.paired.kind, own.label, own.paired.verdict, own.paired.estimate, headline_measure(own)[1])
        for own in others
    ]
    added = [(f"{own.label}, against {one.label}", one.paired, "") for own in others for one in own.added]
    for own in without_task(others):
        told = headline_measure(own)[1]
        added += [(f"{own.label}{UNKNOWN}", own.paired, told)] if own.paired is not None else []
        added += [(f"{own.label}{UNKNOWN}, against {one.label}", one.paired, "") for one in own.added]
    lacking = [own for own in run.results if own.only_known]
    notes = [Finding("open", f"{own.label}{UNKNOWN}", f"not applicable, {own.only_known}") for own in lacking]
    more = [Finding(own.kind, label, own.verdict, own.estimate, value) for label, own, value in added]
    return against_first + more + notes


def headline_measure(own: RowResult) -> tuple[str, str]:
    """The measure that verdicts are about: its heading, and the row's mean ± half of the interval."""
    title, (value, scale, digits) = next(iter(measured(own).items()))
    return title, number(value, scale, digits)


def standing(row: RowState) -> str:
    """How far a row has come."""
    if row.diverged:
        return f"{len(row.diverged)} of {counted(len(row.done), 'seed')} diverged: {next(iter(row.diverged.values()))}"
    least, most = min(row.done), max(row.done)
    if most < 0:
        return "not begun"
    if row.tests is not None:
        return _steps(row.tests, row.curves.get("loss"))
    if least == most:
        return f"{most} of {row.tasks} tasks"
    return f"between {max(least, 0)} and {most} of {row.tasks} tasks, seed by seed"


def _steps(tests: Int[np.ndarray, " tests"], told: Float[np.ndarray, "seeds tests"] | None) -> str:
    """How many steps the tests so far prove."""
    seen = [0] if told is None else sorted({int((~np.isnan(seed)).sum()) for seed in told})
    least, most = (int(tests[count - 1]) if count else 0 for count in (seen[0], seen[-1]))
    if least == most:
        return f"{most:,} of {tests[-1]:,} steps"
    return f"between {least:,} and {most:,} of {tests[-1]:,} steps, seed by seed"
