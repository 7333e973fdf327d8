"""Paired differences: a dot a seed, and what they say together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradcast.results.figures.style import INK, colour, plain, styled
from gradcast.results.result import RowResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled()
def paired_differences(base: RowResult, compared: Sequence[tuple[int, RowResult]]) -> "Figure":
    """What is compared of each row, which comes with its place in the specification, minus the base's, seed by seed."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    figure = Figure(figsize=(4.8, 0.7 + 0.62 * len(compared)), layout="constrained")
    axis = figure.subplots()
    for line, (place, result) in enumerate(compared):
        _draw(axis, -line, place, result, base)
    axis.set_ylim(0.5 - len(compared), 0.65)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.margins(x=0.08)
    axis.grid(axis="x")
    axis.set_xlabel(f"{base.compared} minus that of {plain(base.label)}, in points", parse_math=False)
    return figure


def _draw(axis: "Axes", height: float, place: int, result: RowResult, base: RowResult) -> None:
    assert result.paired is not None
    own, found = colour(place), result.paired.estimate
    both = [dict(zip(row.seeds, row.acc(), strict=True)) for row in (result, base)]
    differences = np.array([both[0][seed] - both[1][seed] for seed in both[0] if seed in both[1]])
    axis.plot([0, 0], [height - 0.38, height + 0.16], color=INK, linewidth=1)  # zero; not through the name above
    axis.plot(differences, np.full(len(differences), height), "o", color=own, alpha=0.7, markersize=5)
    if found.seeds > 1:
        low, high = found.low, found.high
        axis.plot([low, high], [height - 0.2] * 2, color=own, linewidth=3, solid_capstyle="round")
        axis.plot(found.mean, height - 0.2, "D", color=INK, markersize=5)
    beside = axis.get_yaxis_transform()  # x from 0 to 1 across the axes
    axis.text(0, height + 0.24, plain(result.label, 48), transform=beside, fontsize=9, parse_math=False)
    said = f"{found.mean:+.2f}" + (f" ({found.low:+.2f} to {found.high:+.2f})" if found.seeds > 1 else "")
    axis.text(1, height + 0.24, said.replace("-", "−"), transform=beside, fontsize=9, ha="right")
