"""How much of a whole run is done: the rows that will be trained, and the share of each."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta

from rich.progress import Task, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

Part = tuple[str, int]  # a row's label, and which of the rows called so it is


class WholeRun:
    """Rows by their labels; several may have the same one, as seeds that are trained one after another have."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.planned, self.begun = Counter(labels), Counter[str]()
        self.shares: dict[Part, float] = {}

    @property
    def total(self) -> int:
        """How many rows are to be trained."""
        return self.planned.total()

    @property
    def done(self) -> float:
        """Rows that are trained, in parts too."""
        return sum(self.shares.values())

    @property
    def finished(self) -> int:
        """Rows that are trained to their end."""
        return sum(share == 1.0 for share in self.shares.values())

    def begin(self, label: str) -> Part | None:
        """A row begins; None for what is no row of the run. One that begins once more than planned starts over."""
        if not self.planned[label]:
            return None
        self.begun[label] = min(self.begun[label] + 1, self.planned[label])
        part = label, self.begun[label]
        self.shares[part] = 0.0
        return part

    def move(self, part: Part, share: float) -> None:
        """So much of it is done."""
        self.shares[part] = share

    def leave_out(self, label: str) -> None:
        """A row needs no training after all."""
        self.planned[label] -= bool(self.planned[label])


def seconds_left(rows: Task, newest: Task | None = None) -> float | None:
    """Of all rows, by their mean speed since the start; None before anything is done.

    Rows differ, and a head start moves no row's bar, so the speed of the last half minute, which rich goes by, would
    promise the end too soon. All rows take at least as long as the ``newest`` bar.
    """
    if rows.total is None or rows.elapsed is None or not rows.completed:
        return None
    by_speed = rows.elapsed * max(rows.total - rows.completed, 0) / rows.completed
    return max(by_speed, (newest and newest.time_remaining) or 0.0)


class TimeLeft(TimeRemainingColumn):
    """The time left of a bar; of the bar of all rows, which has the field ``rows``, by ``seconds_left``."""

    def __init__(self, newest: Callable[[], Task | None], table_column: Column | None = None) -> None:
        self.newest = newest  # the bar that has moved last
        super().__init__(table_column=table_column)

    def render(self, task: Task) -> Text:
        """As hours, minutes and seconds."""
        if not task.fields.get("rows") or task.finished:
            return super().render(task)
        seconds = seconds_left(task, self.newest())
        shown = "-:--:--" if seconds is None else str(timedelta(seconds=int(seconds)))
        return Text(shown, style="progress.remaining")
