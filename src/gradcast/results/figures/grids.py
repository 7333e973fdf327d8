"""Curves of several numbers in several columns: a strip a number, its axis the same in all columns."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradcast.results.figures.curves import Curve, draw_curves
from gradcast.results.figures.style import legend, plain, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DECADES = 2  # of a logarithmic axis that are shown on either side of what is linear


@dataclass(frozen=True)
class Strip:
    """One number: the curves of every column."""

    title: str
    panels: Sequence[Sequence[Curve]]
    logarithmic: bool = False

    @property
    def empty(self) -> bool:
        """Whether no column has a curve."""
        return not any(self.panels)


@styled()
def curve_grid(columns: Sequence[str], strips: Sequence[Strip]) -> "Figure":
    """A column a title, a strip a number, under one legend."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    figure = Figure(figsize=(1.0 + 2.9 * len(columns), 0.9 + 2.1 * len(strips)), layout="constrained")
    grid = figure.subplots(len(strips), len(columns), squeeze=False, sharex=True, sharey="row")
    for axes, strip in zip(grid, strips, strict=True):
        for axis, curves in zip(axes, strip.panels, strict=True):
            draw_curves(axis, curves)
            axis.label_outer()
        axes[0].set_ylabel(strip.title + (f"\n({_logarithmic(axes[0], strip)})" if strip.logarithmic else ""))
    for axis, title in zip(grid[0], columns, strict=True):
        axis.set_title(plain(title), parse_math=False)
    legend(figure, columns=2)
    return figure


def _logarithmic(axis: "Axes", strip: Strip) -> str:
    """The axis made logarithmic, in words; what is not positive has none, so around zero it is linear then."""
    values = np.concatenate([curve.values.ravel() for curves in strip.panels for curve in curves])
    if np.nanmin(values) > 0:
        axis.set_yscale("log")
        return "logarithmic"
    largest = float(np.nanmax(np.abs(values)))
    if largest == 0:
        return "linear: all are zero"
    power = math.floor(math.log10(largest)) - DECADES
    axis.set_yscale("symlog", linthresh=10.0**power)
    return f"logarithmic, linear\nwithin ±1e{power}"
