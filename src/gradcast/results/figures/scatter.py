"""Two numbers of every seed against each other, with their correlation and a straight line."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from gradcast.results.figures.style import INK, colour, mark, plain, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Cloud:
    """One row's points, a point a seed."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


@styled()
def scatter_panels(panels: Sequence[tuple[str, Sequence[Cloud]]], across: str, upwards: str) -> "Figure":
    """A panel for each group of rows; its title has Pearson's correlation over all points, and their number."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    figure = Figure(figsize=(5.2 * len(panels), 4.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, clouds) in zip(axes, panels, strict=True):
        for place, cloud in enumerate(clouds):
            axis.plot(
                cloud.x, cloud.y, linestyle="", color=colour(place), marker=mark(place), label=plain(cloud.label, 34)
            )
        _fit(axis, clouds)
        axis.set_title(f"{plain(title)}: {said(clouds)}", parse_math=False)
        axis.set_xlabel(across)
        axis.set_ylabel(upwards)
        axis.grid()
        if clouds:
            below = axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.12), ncols=2)  # not on the points
            for text in below.get_texts():
                text.set_parse_math(False)
    return figure


def said(clouds: Sequence[Cloud]) -> str:
    """The correlation in words."""
    found, count = correlation(clouds)
    return f"r is not defined, n = {count}" if math.isnan(found) else f"r = {found:.2f}, n = {count}"


def correlation(clouds: Sequence[Cloud]) -> tuple[float, int]:
    """Pearson's over all points, and their number; not a number where nothing varies or there are fewer than three."""
    x, y = _points(clouds)
    if len(x) < 3 or not np.ptp(x) or not np.ptp(y):
        return math.nan, len(x)
    return float(np.corrcoef(x, y)[0, 1]), len(x)


def _points(clouds: Sequence[Cloud]) -> Float[np.ndarray, "2 points"]:
    both = [np.array([cloud.x, cloud.y], dtype=float) for cloud in clouds]
    every = np.concatenate([np.empty((2, 0)), *both], axis=1)
    return every[:, np.isfinite(every).all(0)]  # a seed may have drawn no unlabelled batch


def _fit(axis: "Axes", clouds: Sequence[Cloud]) -> None:
    """The straight line of least squares through all points; through two places any line would do."""
    x, y = _points(clouds)
    if len(np.unique(x)) < 3:
        return
    slope, height = np.polyfit(x, y, 1)
    ends = np.array([x.min(), x.max()])
    axis.plot(ends, height + slope * ends, color=INK, linewidth=1, linestyle="--", label="straight line of best fit")
