"""The progress of a sweep: one line for all trials, and the watch over the trial that trains."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from gradcast.sweeps.pruning import MedianRule, TrialWatch
from gradcast.training.loop import Extent, Position


@runtime_checkable
class Counting(Protocol):
    """A display that counts."""

    def counter(self, what: str, total: int) -> Callable[[float, str], None]:
        """One line; told how many are done, in parts too, and a note."""
        ...


class Progress:
    """Trials done of all, and the best mean accuracy so far."""

    def __init__(self, display: object, total: int) -> None:
        self.tell = display.counter("trials", total) if isinstance(display, Counting) else _nobody
        self.done, self.note = 0, ""
        self.part(0.0)

    def part(self, share: float) -> None:
        """So much of the trial that trains is done."""
        self.tell(self.done + share, self.note)

    def one_more(self, best: float | None) -> None:
        """A trial is over."""
        self.done, self.note = self.done + 1, "" if best is None else f"best {100 * best:.1f} %"
        self.part(0.0)


class TrialDisplay:
    """What a run is given as its display: a trial has no bar of its own."""

    def __init__(self, moved: Callable[[float], None], rule: MedianRule | None) -> None:
        self.moved, self.rule = moved, rule

    def track(self, rounds: Iterable[Any], what: str, total: int) -> Iterable[Any]:
        """Images are read for every trial."""
        return rounds

    def row(self, label: str, extent: Extent, groups: int = 1, start: Position | None = None) -> TrialWatch:
        """The trial begins, or its head start."""
        return TrialWatch(extent, groups, self.moved, self.rule)

    def skipped(self, label: str) -> None:
        """Tell nothing of a trial that was trained before."""

    def note(self, sentence: str) -> None:
        """It was said before the first trial."""


def _nobody(done: float, note: str) -> None:
    """Do nothing: the sweep shows no progress."""
