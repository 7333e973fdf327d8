"""Verdicts in words, the same in tables, pages and the terminal."""

import math
from collections.abc import Sequence

from gradcast.results.sample import Sample
from gradcast.results.statistics import Beyond, Interval, Shift, fewest_seeds


def helps(shift: Shift) -> str:
    """Better than the base and than every control."""
    return f"helps by {_points(shift.value)} points ({_size(shift)})"


def costs(shift: Shift) -> str:
    """Worse than the base."""
    return f"costs {_points(-shift.value)} points ({_size(_turned(shift))})"


def no_effect(shift: Shift, limit: float) -> str:
    """The whole interval is small."""
    return f"no effect beyond ±{limit:g} point ({shift.low:+.2f} to {shift.high:+.2f})"


def no_more(control: str, beyond: Shift) -> str:
    """Better than the base, as a row without what is claimed is."""
    return f"no more than its control {control} ({_signed(beyond.value)} points beyond it, {_ends(beyond)})"


def open_interval(shift: Shift, deciding: int | Beyond | None) -> str:
    """Enough seeds for the rule, too few for an answer; how many would give one can only be guessed."""
    found = f"open: {_seeds(shift.seeds)} ({_signed(shift.value)} points, {_ends(shift)})"
    if deciding is None:
        return found
    about = f"about {deciding}" if isinstance(deciding, int) else deciding
    return f"{found}, a guess: {about} seeds would decide"


def control_missing(shift: Shift, missing: Sequence[str]) -> str:
    """Better than the base; the control is not there yet."""
    return f"open: control not finished: {', '.join(missing)} ({_signed(shift.value)} points, {_ends(shift)})"


def few_seeds(shift: Shift, mean: Interval, family: int) -> str:
    """Fewer seeds than the rule needs."""
    needed = f"a verdict needs {fewest_seeds(family)}"
    return f"open: {_seeds(shift.seeds)}, {needed} ({_described(shift, mean)})"


def no_claim(role: str, shift: Shift, mean: Interval) -> str:
    """A control or a bound."""
    return f"{role}, no claim: {_described(shift, mean)}"


def nothing_learned(row: Sample) -> str:
    """A row at chance; where every task has one class, a guess is always right."""
    if row.chance == 100.0:
        return "open: one class a task, so there is nothing to tell apart where the task is known"
    acc = sum(row.acc.values()) / len(row.acc)
    return f"nothing was learned (ACC {acc:.1f} %, chance is {row.chance:.1f} %)"


def trained_in_part(row: Sample) -> str:
    """A row that undid too many of its steps."""
    return f"open: {row.label} undid {100 * row.undone_share:.0f} % of its steps, which were not finite: no verdict"


def losses(row: Sample, of: str) -> list[str]:
    """Seeds that diverged or collapsed, by number; ``of`` names a row that is not the subject of the sentence."""
    total, owner = len(row.seeds), f" of {of}" if of else ""
    found = []
    for seeds, what in ((sorted(row.diverged), "diverged"), (row.collapsed, "collapsed")):
        if seeds:
            found.append(f"{len(seeds)} of {_seeds(total)}{owner} {what} ({', '.join(map(str, seeds))})")
    return found


def weak(ratio: float) -> str:
    """A signal that adds next to nothing."""
    return f"what the signal adds is {ratio:.1g} of the labelled gradient"


def guessed(seeds_needed: int | str, seeds: int) -> str:
    """How many seeds, and how little that is known."""
    return f"about {seeds_needed}, a guess from {_seeds(seeds)}"


def _described(shift: Shift, mean: Interval) -> str:
    """The interval of the test, or the t interval where so few seeds have none; one seed has neither."""
    if shift.seeds < 2:
        return f"{_signed(shift.value)} points"
    if math.isfinite(shift.low):
        return f"{_signed(shift.value)} points, {_ends(shift)}"
    return f"mean {_signed(mean.mean)} points, t interval {_between(mean.low, mean.high)}"


def _size(shift: Shift) -> str:
    """Of an effect that is shown: Holm's test may reject zero where the wider simultaneous interval holds it."""
    if shift.low == shift.high:
        return f"the same on each of {_seeds(shift.seeds)}"
    return f"{'0.0' if shift.low <= 0 else _points(shift.low)} to {_points(shift.high)}"


def _turned(shift: Shift) -> Shift:
    return Shift(-shift.value, -shift.high, -shift.low, shift.confidence, shift.seeds)


def _ends(shift: Shift) -> str:
    return _between(shift.low, shift.high) if math.isfinite(shift.low) else "too few seeds for an interval"


def _between(low: float, high: float) -> str:
    return f"{_signed(low)} to {_signed(high)}"


def _signed(value: float) -> str:
    return f"{value:+.2g}" if 0 < abs(value) < 0.095 else f"{value:+.1f}"


def _points(value: float) -> str:
    """One decimal; two figures where that would say 0.0."""
    return f"{value:.1f}" if abs(value) >= 0.095 else f"{value:.2g}"


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"
