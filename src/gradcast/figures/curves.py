"""Curves over the stream: a line a row, a band from its lowest to its highest seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from gradcast.figures.style import colour, mark, plain, styled
from gradcast.result import COURSES, RowResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """One row's number in each task; not a number where there is none (yet)."""

    label: str
    place: int  # of the row in its specification: decides colour and mark
    values: Float[np.ndarray, "seeds tasks"]
    finished: bool = True


@styled()
def stream_curves(title: str, curves: Sequence[Curve]) -> "Figure":
    """One number of all rows, task by task; rows that still train are dashed."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    lines = -(-len(curves) // 2)
    figure = Figure(figsize=(4.6, 2.7 + 0.17 * lines), layout="constrained")
    axis = figure.subplots()
    _draw(axis, title, curves)
    _legend(figure, columns=2)
    return figure


def signal_courses(results: Sequence[RowResult]) -> "Figure | None":
    """What every signal did, task by task, a panel a number; None where no row has a signal."""
    panels = [(title, courses(results, name)) for name, title in COURSES.items()]
    panels = [(title, curves) for title, curves in panels if curves]
    return curve_panels(panels) if panels else None


@styled()
def curve_panels(panels: Sequence[tuple[str, Sequence[Curve]]]) -> "Figure":
    """Several numbers, up to three side by side, under one legend."""
    from matplotlib.figure import Figure

    columns = min(len(panels), 3)
    height = -(-len(panels) // columns)
    figure = Figure(figsize=(4.0 * columns, 0.6 + 2.6 * height), layout="constrained")
    axes = figure.subplots(height, columns, squeeze=False).flatten()
    for axis, (title, curves) in zip(axes, panels, strict=False):
        _draw(axis, title, curves)
    for axis in axes[len(panels) :]:
        axis.remove()
    _legend(figure, columns=3)
    return figure


def courses(results: Sequence[RowResult], name: str) -> list[Curve]:
    """The curves of one number of the signals."""
    found = enumerate(results)
    return [Curve(r.label, place, r.courses[name]) for place, r in found if name in r.courses]


def _draw(axis: "Axes", title: str, curves: Sequence[Curve]) -> None:
    from matplotlib.ticker import MaxNLocator

    for curve in curves:
        _band(axis, curve)
    axis.set_title(title)
    axis.set_xlabel("task")
    axis.grid(axis="y")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _band(axis: "Axes", curve: Curve) -> None:
    seen = ~np.isnan(curve.values).all(0)  # a short task may have used no unlabelled batch, a late one lies ahead
    values, tasks = curve.values[:, seen], 1 + np.flatnonzero(seen)
    own = colour(curve.place)
    axis.plot(
        tasks,
        np.nanmean(values, 0),
        label=plain(curve.label, 34) + ("" if curve.finished else " (so far)"),
        color=own,
        linestyle="-" if curve.finished else "--",
        marker=mark(curve.place) if len(tasks) < 30 else None,
    )
    if len(values) > 1:
        axis.fill_between(tasks, np.nanmin(values, 0), np.nanmax(values, 0), color=own, alpha=0.14, linewidth=0)


def _legend(figure: "Figure", columns: int) -> None:
    """One for all axes, each row once."""
    handles = {text: line for axis in figure.axes for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    legend = figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=columns, fontsize=8)
    for text in legend.get_texts():
        text.set_parse_math(False)
