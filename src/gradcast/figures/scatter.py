"""Two numbers of every seed against each other, with their correlation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradcast.figures.style import colour, mark, plain, styled

if TYPE_CHECKING:
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

    figure = Figure(figsize=(5.2 * len(panels), 4.2), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, clouds) in zip(axes, panels, strict=True):
        for place, cloud in enumerate(clouds):
            axis.plot(
                cloud.x, cloud.y, linestyle="", color=colour(place), marker=mark(place), label=plain(cloud.label, 34)
            )
        axis.set_title(f"{plain(title)}: {said(clouds)}", parse_math=False)
        axis.set_xlabel(across)
        axis.set_ylabel(upwards)
        axis.grid()
        if clouds:
            for text in axis.legend(fontsize=8).get_texts():
                text.set_parse_math(False)
    return figure


def said(clouds: Sequence[Cloud]) -> str:
    """The correlation in words."""
    found, count = correlation(clouds)
    return f"r is not defined, n = {count}" if math.isnan(found) else f"r = {found:.2f}, n = {count}"


def correlation(clouds: Sequence[Cloud]) -> tuple[float, int]:
    """Pearson's over all points, and their number; not a number where nothing varies or there are fewer than three."""
    x = np.concatenate([np.empty(0), *(np.asarray(cloud.x, dtype=float) for cloud in clouds)])
    y = np.concatenate([np.empty(0), *(np.asarray(cloud.y, dtype=float) for cloud in clouds)])
    known = np.isfinite(x) & np.isfinite(y)  # a seed may have drawn no unlabelled batch
    x, y = x[known], y[known]
    if len(x) < 3 or not np.ptp(x) or not np.ptp(y):
        return math.nan, len(x)
    return float(np.corrcoef(x, y)[0, 1]), len(x)
