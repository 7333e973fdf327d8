"""What a person sees in the terminal: progress with the time left, and the table of results."""

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from textwrap import wrap
from types import TracebackType
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from torch import Tensor

from gradcast.cli.whole_run import Part, TimeLeft, WholeRun, seconds_left
from gradcast.cluster.relay import Progress as TaskProgress
from gradcast.core import Metrics
from gradcast.errors import one_line, printable
from gradcast.results.report import verdicts
from gradcast.results.report.words import SELECTED, size_of_h
from gradcast.results.result import RowResult
from gradcast.results.summary_table import cells, headings, tables, title
from gradcast.training.loop import Extent, Position

MINUTE = 60.0
GAIN = "A gain is how much lower the last error is than the first row's."


class ProgressDisplay:
    """Progress bars on standard error, one a row and one for all; in a file, where no bar moves, a line a minute."""

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self.console, self.now = console, now
        self.moving, self.told = console.is_terminal or console.is_jupyter, now()
        self.warned: set[str] = set()
        self.whole: TaskID | None = None  # the bar of all tasks of other processes
        self.shares: dict[TaskID, float] = {}  # of each of these tasks, done
        self.run: WholeRun | None = None  # all rows of this process, where there are several
        self.rows: TaskID | None = None  # their bar
        self.newest: TaskID | None = None  # the bar of a row or a head start that has moved last
        wide = console.width >= 100
        self.progress = Progress(
            TextColumn("{task.description}", table_column=Column()),  # the one that may take several lines
            BarColumn(bar_width=20 if wide else 8, table_column=Column(no_wrap=True)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("[dim]{task.fields[note]}"),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TimeLeft(self._newest, table_column=Column(no_wrap=True)),
            TextColumn("[dim]left"),
            console=console,
        )

    def __enter__(self) -> "ProgressDisplay":
        self.previous, warnings.showwarning = warnings.showwarning, self._show_warning
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()
        warnings.showwarning = self.previous

    def _show_warning(self, message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        """One plain line a warning, instead of Python's two with a source path; once, however many rows meet it."""
        if str(message) not in self.warned:
            self.warned.add(str(message))
            print_warning(self.console, str(message))

    def move(
        self, bar: TaskID, completed: float | None = None, total: float | None = None, note: str | None = None
    ) -> None:
        """Change a bar; where nobody sees it move, tell of it from time to time."""
        fields: dict[str, Any] = {} if note is None else {"note": note}
        self.progress.update(bar, completed=completed, total=total, **fields)
        self.newest = bar
        if not self.moving and (now := self.now()) - self.told >= MINUTE:
            self.told = now
            self._tell(bar)

    def _newest(self) -> Task | None:
        return next((task for task in self.progress.tasks if task.id == self.newest), None)

    def _tell(self, bar: TaskID) -> None:
        (own,) = (task for task in self.progress.tasks if task.id == bar)
        note, seconds = own.fields["note"], own.time_remaining
        parts = [
            f"{own.description}: {own.completed:,.0f}" + ("" if own.total is None else f" of {own.total:,.0f}"),
            *([note] if note else []),
            *([] if seconds is None else [f"{timedelta(seconds=int(seconds))} left"]),
        ]
        if self.run is not None and self.rows is not None:
            (every,) = (task for task in self.progress.tasks if task.id == self.rows)
            seconds = seconds_left(every, own)
            left = "" if seconds is None else f", {timedelta(seconds=int(seconds))} left"
            parts.append(f"all rows: {self.run.finished} of {self.run.total} done{left}")
        self.console.print(", ".join(parts), soft_wrap=True)

    def plan(self, labels: Sequence[str]) -> None:
        """These rows will be trained; where there are several, a bar counts them all."""
        if len(labels) > 1:
            self.run = WholeRun(labels)
            self.rows = self.progress.add_task("all rows", total=self.run.total, note="", rows=True)

    def leave_out(self, label: str) -> None:
        """One of them needs no training after all."""
        if self.run is not None and self.rows is not None:
            self.run.leave_out(label)
            self.progress.update(self.rows, total=self.run.total)

    def count(self, part: Part, share: float) -> None:
        """So much of a row is done."""
        if self.run is not None and self.rows is not None:
            self.run.move(part, share)
            self.progress.update(self.rows, completed=self.run.done)

    def track(self, rounds: Iterable[Any], what: str, total: int) -> Iterable[Any]:
        """A bar for a long loop before training."""
        bar = self.progress.add_task(escape(one_line(what)), total=total, note="")
        if not self.moving:
            self.console.print(f"{escape(one_line(what))} ...", soft_wrap=True)
        for done, entry in enumerate(rounds, 1):
            yield entry
            self.move(bar, completed=done)

    def transfer(self, what: str) -> Callable[[int, int | None], None]:
        """A bar for a download, in megabytes."""
        bar = self.progress.add_task(escape(what), total=None, note="MB")

        def moved(done: int, total: int | None) -> None:
            self.move(bar, completed=done >> 20, total=None if total is None else total >> 20)

        return moved

    def counter(self, what: str, total: int) -> Callable[[float, str], None]:
        """A bar for things that are done one after another; told how many are, in parts too, and a note."""
        bar = self.progress.add_task(escape(what), total=total, note="")

        def moved(done: float, note: str) -> None:
            self.move(bar, completed=done, note=note)

        return moved

    def row(self, label: str, extent: Extent, groups: int = 1, start: Position | None = None) -> "RowProgress":
        """A bar for a row; one that goes on says so."""
        if start is not None:
            self.console.print(f"[dim]{escape(label)}: goes on after step {start.steps}")
        # the first step of all compiles kernels on a GPU, which takes a while
        bar = self.progress.add_task(escape(label), total=groups * extent.steps, note="getting ready")
        part = None if self.run is None else self.run.begin(label)
        return RowProgress(self, bar, extent, groups * extent.steps, part)

    def task(self, label: str) -> int:
        """A bar for a task of another process, shown when it begins; a bar above all counts them."""
        if self.whole is None:
            self.whole = self.progress.add_task("all cells", total=0, note="")
        bar = self.progress.add_task(escape(label), total=None, note="", visible=False, start=False)
        self.shares[bar] = 0.0
        self.progress.update(self.whole, total=len(self.shares))
        return bar

    def moved(self, number: int, progress: TaskProgress) -> None:
        """A task is so far, on some node."""
        bar = TaskID(number)
        if not self.progress.tasks[self.progress.task_ids.index(bar)].started:
            self.progress.start_task(bar)
            self.progress.update(bar, visible=True)
        self.move(bar, completed=progress.done, total=progress.total or None, note=f"{progress.node} {progress.note}")
        self._count(bar, progress.done / progress.total if progress.total else 0.0)

    def ended(self, number: int, problem: str = "") -> None:
        """A task is done, or failed."""
        self.progress.update(TaskID(number), visible=False)
        self._count(TaskID(number), 1.0)
        if problem:
            self.note(f"failed: {problem}")

    def _count(self, bar: TaskID, share: float) -> None:
        """The bar of all tasks, in whole tasks and parts of them."""
        self.shares[bar] = share
        if self.whole is not None:
            done = sum(own == 1.0 for own in self.shares.values())
            self.move(self.whole, completed=sum(self.shares.values()), note=f"{done} done")

    def note(self, sentence: str) -> None:
        """Print a sentence above the bars."""
        self.console.print(f"[dim]{escape(printable(sentence))}", soft_wrap=True)

    def skipped(self, label: str) -> None:
        """Say that the row needs no run."""
        self.leave_out(label)
        self.console.print(f"[dim]{escape(label)}: finished earlier, not run again")


class RowProgress:
    """Hears of one row's steps."""

    def __init__(
        self, display: ProgressDisplay, bar: TaskID, extent: Extent, steps: int, part: Part | None = None
    ) -> None:
        self.display, self.bar, self.extent, self.steps = display, bar, extent, steps
        self.part, self.first = part, 0  # of the whole run; steps that another process did
        self.done = 0
        self.group: int | None = None  # of seeds; none has begun
        self.tested = ""  # what the newest test while training said

    def begin(self, group: int, position: Position, seeds: Sequence[int] = ()) -> None:
        """This group of seeds goes on from there."""
        first, self.group, self.done = self.group is None, group, position.batches
        completed = self._before(position.task) + self.done
        if first:  # what was done before this process says nothing about its speed
            self.display.progress.reset(self.bar, completed=completed)
            self.first = completed
        else:
            self._move(completed)

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """Move the bar by one step."""
        if "test_accuracy" in metrics:  # known to the host in a moment anyway: it is written now
            self.tested = f"error {100 * (1 - float(metrics['test_accuracy'].mean())):.1f} %"
        epoch = f", epoch {self.done // self.extent.epochs[task] + 1}" if self.extent.epochs else ""
        note = self.tested or (
            f"task {task + 1}{epoch}" if self.extent.every == 1 and len(self.extent.batches) > 1 else ""
        )
        self.done += 1
        self._move(self._before(task) + self.done, note)

    def trained(self, task: int) -> None:
        """Say what the wait is for; a task may be over before its last epoch."""
        self.done = 0
        self._move(self._before(task + 1), "evaluating")

    def _move(self, completed: int, note: str | None = None) -> None:
        """The bars of the row and of all rows."""
        if self.part is not None and self.steps > self.first:
            self.display.count(self.part, (completed - self.first) / (self.steps - self.first))
        self.display.move(self.bar, completed=completed, note=note)

    def _before(self, task: int) -> int:
        return (self.group or 0) * self.extent.steps + self.extent.before(task)

    def evaluated(self, tasks_done: int, accuracy: Tensor, unknown: Tensor | None = None) -> None:
        """Show the mean accuracy over the tasks seen, or the error of a single one."""
        if tasks_done and self.tested:
            self.display.move(self.bar, note=f"error {100 * (1 - float(accuracy.mean())):.1f} %")
        elif tasks_done:
            self.display.move(self.bar, note=f"{100 * float(accuracy[:, :tasks_done].mean()):.1f} %")


def print_results(
    console: Console, results: Sequence[RowResult], place: Path, advised: str | None = None, mark: str = ""
) -> None:
    """The tables under their ``mark``, the verdicts, what to try next, and where everything is."""
    for own in tables(results):
        heading = f"{mark}{': ' if mark else ''}{title(own)}"
        table = Table(title=heading, title_justify="left", box=SIMPLE_HEAD)
        table.add_column("")
        for name in headings(own):
            table.add_column(name, justify="right", no_wrap=True)
        for result in own:
            table.add_row(escape(result.label), *cells(result))
        console.print(table)
    if results[0].tests is not None:
        console.print(f"[dim]{escape(SELECTED)} {GAIN}", highlight=False)
    for sentence in size_of_h(results):
        console.print(f"[dim]{escape(sentence)}", highlight=False)
    for sentence in verdicts(results):
        print_sentence(console, sentence)
    if advised is not None:
        console.print(escape(advised), soft_wrap=True)
    console.print(f"Results: {escape(str(place))} (report.md, result.json, pictures)", soft_wrap=True)


def print_sentence(console: Console, sentence: str) -> None:
    """In bold; what does not fit on a line is indented on the next."""
    lines = wrap(sentence, console.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    console.print(f"[bold]{escape(chr(10).join(lines))}", soft_wrap=True)


def show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Python's warnings as one plain line on standard error, for commands that show no progress."""
    print_warning(Console(stderr=True, highlight=False), str(message))


def print_warning(console: Console, sentence: str) -> None:
    """One line; names of files in it steer no terminal."""
    console.print(f"[yellow]warning:[/] {escape(one_line(sentence))}", soft_wrap=True)


def complain(sentence: str) -> None:
    """What went wrong, on standard error."""
    Console(stderr=True, highlight=False, markup=False).print(f"error: {sentence}", soft_wrap=True, style="red")
