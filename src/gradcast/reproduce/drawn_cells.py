"""Trained settings that figures draw task by task: tables keep what happened in every task of those, and of no others.

A matrix of 20 tasks takes 2 kB a seed, so that tables of many rows would be megabytes large.
"""

from functools import cache

from gradcast.devices import Arithmetic
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.experiment import Experiment, load, names
from gradcast.reproduce.experiment_tables import Kind

TASK_BY_TASK: tuple[Kind, ...] = ("curves", "courses", "scatter", "matrices")


def task_by_task(experiment: Experiment) -> bool:
    """Whether it is a figure of what happened in every task."""
    return experiment.header.kind in TASK_BY_TASK


def drawn_cells(experiment: Experiment, dtype: Arithmetic) -> frozenset[str]:
    """Names of cells of this experiment, if it is such a figure, and of all figures as they come with the package."""
    return _cells(experiment, dtype) | _of_the_package(dtype)


@cache
def _of_the_package(dtype: Arithmetic) -> frozenset[str]:
    return frozenset(cell for name in names() for cell in _cells(load(name), dtype))


def _cells(experiment: Experiment, dtype: Arithmetic) -> frozenset[str]:
    if not task_by_task(experiment):
        return frozenset()
    settings = [item.setting for item in experiment.items if item.setting is not None]
    return frozenset(Cell(setting, dtype).name for setting in settings if setting.one_task is None)
