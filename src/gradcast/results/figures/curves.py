"""Curves over a stream, or over the steps of one task: the mean of a row's seeds in the band of its 95 % interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from gradcast.results.figures.style import colour, legend, mark, plain, styled
from gradcast.results.history import HISTORY
from gradcast.results.result import COURSES, RowResult
from gradcast.results.statistics import Interval, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EVEN = [1, 2, 5, 10]  # ticks are multiples of these, in any power of ten
MISSING = Interval(np.nan, np.nan, np.nan, 0)  # of a point that no seed has reached


@dataclass(frozen=True)
class Curve:
    """One row's number in each task, or at each test; not a number where there is none (yet)."""

    label: str
    place: int  # of the row in its specification: decides colour and mark
    values: Float[np.ndarray, "seeds points"]
    finished: bool = True
    steps: Int[np.ndarray, " points"] | None = None  # that ended in a test; None: points are tasks
    dashed: bool = False  # and without a band, beside a solid one of its colour


@styled()
def stream_curves(title: str, curves: Sequence[Curve]) -> "Figure":
    """One number of all rows, task by task or test by test; rows that still train are dashed."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    lines = -(-len(curves) // 2)
    figure = Figure(figsize=(4.6, 2.7 + 0.17 * lines), layout="constrained")
    axis = figure.subplots()
    draw_curves(axis, curves)
    axis.set_title(title)
    legend(figure, columns=2)
    return figure


def signal_courses(results: Sequence[RowResult]) -> "Figure | None":
    """What every signal did, task by task (of few labels, all that tests told), a panel a number; None: nothing."""
    names = COURSES if results[0].tests is None else HISTORY
    panels = [(title, courses(results, name)) for name, title in names.items()]
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
        draw_curves(axis, curves)
        axis.set_title(title)
    for axis in axes[len(panels) :]:
        axis.remove()
    legend(figure, columns=3)
    return figure


def courses(results: Sequence[RowResult], name: str) -> list[Curve]:
    """The curves of one number of the signals."""
    found = enumerate(results)
    return [Curve(r.label, place, r.courses[name], steps=r.tests) for place, r in found if name in r.courses]


def draw_curves(axis: "Axes", curves: Sequence[Curve]) -> None:
    """All of them, over the tasks or steps they share."""
    from matplotlib.ticker import MaxNLocator

    for curve in curves:
        _band(axis, curve)
    over_steps = any(curve.steps is not None for curve in curves)
    axis.set_xlabel("step" if over_steps else "task")
    axis.grid(axis="y")
    axis.xaxis.set_major_locator(MaxNLocator(5 if over_steps else "auto", integer=True, steps=EVEN))
    axis.yaxis.set_major_locator(MaxNLocator(5, steps=EVEN))
    if over_steps:
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.set_ylim(*_frame(curves))


def _frame(curves: Sequence[Curve]) -> tuple[float | None, float | None]:
    """Around all lines and bands after the first tenth: beginnings would leave no room for the rest."""
    late = np.concatenate([np.ravel(_shown(curve.values[:, curve.values.shape[1] // 10 :])) for curve in curves])
    if np.isnan(late).all() or np.nanmin(late) == np.nanmax(late):
        return None, None
    low, high = float(np.nanmin(late)), float(np.nanmax(late))
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _band(axis: "Axes", curve: Curve) -> None:
    seen = ~np.isnan(curve.values).all(0)  # a short task may have used no unlabelled batch, a late one lies ahead
    places = 1 + np.arange(len(seen)) if curve.steps is None else curve.steps
    values, places = curve.values[:, seen], places[seen]
    own, (mean, low, high) = colour(curve.place), _shown(values)
    axis.plot(
        places,
        mean,
        label=plain(curve.label, 34) + ("" if curve.finished else " (so far)"),
        color=own,
        linestyle="-" if curve.finished and not curve.dashed else "--",
        marker=mark(curve.place) if len(places) < 30 else None,
    )
    if len(values) > 1 and not curve.dashed:
        axis.fill_between(places, low, high, color=own, alpha=0.14, linewidth=0)


def _shown(values: Float[np.ndarray, "seeds points"]) -> Float[np.ndarray, "3 points"]:
    """Mean over seeds and both ends of its 95 % interval; a point that one seed has is its own interval."""
    told = [interval(list(point[~np.isnan(point)])) if (~np.isnan(point)).any() else MISSING for point in values.T]
    ends = [(own.low, own.high) if own.seeds > 1 else (own.mean, own.mean) for own in told]
    return np.array([(own.mean, *both) for own, both in zip(told, ends, strict=True)], dtype=float).reshape(-1, 3).T
