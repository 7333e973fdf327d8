"""Rows as figures draw them: what their seeds did task by task, trained here or read from a saved table."""

from collections.abc import Sequence

import numpy as np

from gradcast.reproduce.drawn_cells import task_by_task
from gradcast.reproduce.experiment import Experiment
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.reproduce import DTYPE, Request
from gradcast.results.result import RowResult


def results(found: Sequence[Line]) -> list[RowResult]:
    """Each row with numbers of its tasks, of the seeds that have them, in the order of the table."""
    return [row for line in found if (row := result(line)) is not None]


def result(line: Line) -> RowResult | None:
    """One row; None where nothing is known of its tasks."""
    if line.trained is None or not line.trained.task_numbers:
        return None
    seeds = sorted(line.trained.task_numbers)
    own = [line.trained.task_numbers[seed] for seed in seeds]
    shared = [name for name in own[0].courses if all(name in each.courses for each in own)]
    return RowResult(
        name=line.item.name,
        label=line.item.label,
        seeds=seeds,
        matrices=np.stack([each.matrix for each in own]),
        measures=[line.trained.measures[seed] for seed in seeds],
        diagnostics={},
        courses={name: np.stack([each.courses[name] for each in own]) for name in shared},
        paired=line.paired,
    )


def left_out(wanted: Request, found: Sequence[Line]) -> list[str]:
    """A sentence that names rows with numbers that a figure lacks, and the command that trains them; or none."""
    lacking = not_drawn(wanted.experiment, found)
    if not lacking:
        return []
    changes = [*wanted.settings, *([] if wanted.dtype == DTYPE else [f"dtype={wanted.dtype}"])]
    command = f"gradcast reproduce {wanted.experiment.header.id} --rows {','.join(line.item.name for line in lacking)}"
    return [
        f"Not in the figure, or not with all seeds: {', '.join(line.item.label for line in lacking)}. Their saved "
        "table does not say what happened task by task; "
        f"{command}{''.join(f' --set {change}' for change in changes)} trains them"
    ]


def not_drawn(experiment: Experiment, found: Sequence[Line]) -> list[Line]:
    """Rows with numbers of which a figure of every task cannot draw all seeds."""
    return [line for line in found if line.ours and not _complete(line)] if task_by_task(experiment) else []


def _complete(line: Line) -> bool:
    return line.trained is not None and line.trained.task_numbers.keys() == line.trained.measures.keys()
