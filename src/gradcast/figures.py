"""Pictures of results."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from gradcast.result import COURSES, RowResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def accuracy_matrices(results: Sequence[RowResult], path: Path) -> None:
    """Heat maps of the mean accuracy matrix of each row, side by side on one colour scale."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    tasks = results[0].matrices.shape[2]
    figure = Figure(figsize=(1.2 + 3.4 * len(results), 4.0), layout="constrained", dpi=130)
    axes = figure.subplots(1, len(results), squeeze=False)[0]
    for axis, result in zip(axes, results, strict=True):
        image = axis.imshow(100 * result.matrices.mean(0), vmin=0, vmax=100, cmap="viridis", aspect="auto")
        title = f"{result.label}\nACC {100 * result.over_seeds('acc').mean:.1f} %"
        axis.set_title(title, fontsize=10, parse_math=False)
        axis.set_xlabel("tested on task")
        shown = _ticks(tasks)
        axis.set_xticks(shown, [str(task + 1) for task in shown])
        axis.set_yticks([0, *(task + 1 for task in shown)], ["before", *(str(task + 1) for task in shown)])
    axes[0].set_ylabel("after training on task")
    figure.colorbar(image, ax=list(axes), label="accuracy (%)", shrink=0.9)
    figure.savefig(path, metadata={"Software": "gradcast"})


def signal_courses(results: Sequence[RowResult], path: Path) -> bool:
    """What every signal did, task by task: a panel a number, a line a row, a band from its lowest to highest seed.

    Nothing is drawn, and False returned, where no row has a signal.
    """
    from matplotlib.figure import Figure

    names = [name for name in COURSES if any(name in result.courses for result in results)]
    if not names:
        return False
    columns = min(len(names), 3)
    height = -(-len(names) // columns)
    figure = Figure(figsize=(4.2 * columns, 0.6 + 2.8 * height), layout="constrained", dpi=130)
    axes = figure.subplots(height, columns, squeeze=False).flatten()
    for axis, name in zip(axes, names, strict=False):
        for index, result in enumerate(results):
            if name in result.courses:
                _band(axis, result.courses[name], result.label, f"C{index}")
        axis.set_title(COURSES[name], fontsize=10)
        axis.set_xlabel("task")
    for axis in axes[len(names) :]:
        axis.remove()
    handles = {text: line for axis in figure.axes for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    legend = figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=9)
    for text in legend.get_texts():
        text.set_parse_math(False)
    figure.savefig(path, metadata={"Software": "gradcast"})
    return True


def _band(axis: "Axes", values: Float[np.ndarray, "seeds tasks"], label: str, colour: str) -> None:
    seen = ~np.isnan(values).all(0)  # a short task may have used no unlabelled batch
    values, tasks = values[:, seen], 1 + np.flatnonzero(seen)
    axis.plot(tasks, np.nanmean(values, 0), label=label, color=colour, marker="." if len(tasks) < 30 else None)
    if len(values) > 1:
        axis.fill_between(tasks, np.nanmin(values, 0), np.nanmax(values, 0), color=colour, alpha=0.15, linewidth=0)


def _ticks(tasks: int) -> list[int]:
    return [int(task) for task in np.unique(np.linspace(0, tasks - 1, min(tasks, 5)).round())]
