"""What a constant does: its values to the right, a measure upwards, the base's seeds as a band behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradcast.results.figures.style import colour, legend, mark, plain, styled
from gradcast.results.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURES = {"acc": "ACC (%)", "bwt": "BWT", "fwt": "FWT"}
TITLES = MEASURES | {"gain": "gain in ACC (points)"}  # over the base, whose own is zero


@dataclass(frozen=True)
class Base:
    """What a sweep is compared with: every seed's measures."""

    label: str
    seeds: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Sweep:
    """One constant of one setting: a name for each value, and its measures where it is trained."""

    values: Sequence[str]
    measures: Sequence[Mapping[str, Interval]]
    base: Base | None = None
    label: str = ""  # empty where a plot has no other
    logarithmic: bool = False  # its values are positive numbers, on a logarithmic axis


@styled()
def sweep_panels(plots: Mapping[str, Sequence[Sweep]], measures: Sequence[str] = tuple(MEASURES)) -> "Figure":
    """A panel for each constant and measure; with one measure side by side, else a line for each constant.

    Bars are confidence intervals, bands reach from the base's lowest to its highest seed.
    """
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    shape = (1, len(plots)) if len(measures) == 1 else (len(plots), len(measures))
    figure = Figure(figsize=(3.5 * shape[1], 0.6 + 2.3 * shape[0]), layout="constrained")
    grid = figure.subplots(*shape, squeeze=False).reshape(len(plots), len(measures))
    for line, (title, sweeps) in zip(grid, plots.items(), strict=True):
        for axis, name in zip(line, measures, strict=True):
            _draw(axis, sweeps, name)
            axis.set_ylabel(TITLES[name])
        line[0].set_title(plain(title), parse_math=False)
    legend(figure, columns=2)
    return figure


def _draw(axis: "Axes", sweeps: Sequence[Sweep], name: str) -> None:
    """Values stand at equal distances, as most grids are neither even nor logarithmic, or at their logarithms."""
    ticks, logarithmic = _ticks(sweeps), all(sweep.logarithmic for sweep in sweeps)
    at = {value: float(value) if logarithmic else place for place, value in enumerate(ticks)}
    for number, sweep in enumerate(sweeps):
        _band(axis, sweep.base, name, colour(number + 1))
        known = [(at[value], own[name]) for value, own in zip(sweep.values, sweep.measures, strict=True) if name in own]
        axis.errorbar(
            [place for place, _ in known],
            [own.mean for _, own in known],
            yerr=[own.half if own.seeds > 1 else 0.0 for _, own in known],
            color=colour(number + 1),
            marker=mark(number),
            capsize=2,
            label=plain(sweep.label),
        )
    if logarithmic:
        axis.set_xscale("log")
        axis.minorticks_off()
    else:
        axis.set_xlim(-0.5, len(ticks) - 0.5)
    axis.set_xticks([at[value] for value in ticks], [plain(value, 12) for value in ticks], rotation=45)
    axis.grid(axis="y")


def _band(axis: "Axes", base: Base | None, name: str, own: str) -> None:
    if base is None or name not in base.seeds:
        return
    seeds = base.seeds[name]
    axis.axhline(
        float(np.mean(seeds)),
        color=own,
        linewidth=1,
        linestyle=":",
        label=plain(base.label) + (": mean and range of seeds" if len(seeds) > 1 else ""),
    )
    if len(seeds) > 1:
        axis.axhspan(min(seeds), max(seeds), color=own, alpha=0.14, linewidth=0)


def _ticks(sweeps: Sequence[Sweep]) -> list[str]:
    """All values, each once: numbers by their size, others as they come."""
    values = list(dict.fromkeys(value for sweep in sweeps for value in sweep.values))
    try:
        return sorted(values, key=float)
    except ValueError:
        return values
