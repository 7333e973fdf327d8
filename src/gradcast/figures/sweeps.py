"""What a constant does: its values to the right, a measure upwards, the base as a band behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradcast.figures.style import INK, colour, mark, plain, styled
from gradcast.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MEASURES = {"acc": "ACC (%)", "bwt": "BWT", "fwt": "FWT"}


@dataclass(frozen=True)
class Sweep:
    """One constant: a name for each value, and its measures where it is trained."""

    title: str
    values: Sequence[str]
    measures: Sequence[Mapping[str, Interval]]
    base: Mapping[str, Interval] | None = None


@styled()
def sweep_panels(sweeps: Sequence[Sweep]) -> "Figure":
    """A line of panels for each constant, a panel for each measure; bars are confidence intervals."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    figure = Figure(figsize=(10.5, 0.3 + 2.3 * len(sweeps)), layout="constrained")
    axes = figure.subplots(len(sweeps), len(MEASURES), squeeze=False)
    for line, sweep in zip(axes, sweeps, strict=True):
        for axis, (name, title) in zip(line, MEASURES.items(), strict=True):
            _draw(axis, sweep, name)
            axis.set_ylabel(title)
        line[0].set_title(plain(sweep.title), parse_math=False)
    return figure


def _draw(axis: "Axes", sweep: Sweep, name: str) -> None:
    """Values stand at equal distances: grids are neither even nor logarithmic."""
    places = [place for place, own in enumerate(sweep.measures) if name in own]
    found = [sweep.measures[place][name] for place in places]
    if sweep.base is not None and name in sweep.base:
        base = sweep.base[name]
        axis.axhline(base.mean, color=INK, linewidth=1, linestyle=":")
        if base.seeds > 1:
            axis.axhspan(base.low, base.high, color=INK, alpha=0.1, linewidth=0)
    spread = [own.half if own.seeds > 1 else 0.0 for own in found]
    axis.errorbar(places, [own.mean for own in found], yerr=spread, color=colour(1), marker=mark(0), capsize=2)
    axis.set_xticks(range(len(sweep.values)), [plain(value, 12) for value in sweep.values], rotation=45)
    axis.set_xlim(-0.5, len(sweep.values) - 0.5)
    axis.grid(axis="y")
