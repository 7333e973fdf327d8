"""What tuning found: accuracy over the values of every key, a dot for each trial, a panel for each key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradcast.results.figures.style import COLOURS, INK, legend, plain, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
FINISHED, STOPPED, BEST = "finished", "stopped early", "best"


@dataclass(frozen=True)
class Dot:
    """One trial: a value for every key, as a number or in words, and its accuracy in %."""

    values: Sequence[float | str]
    accuracy: float
    stopped: bool = False
    best: bool = False

    @property
    def kind(self) -> str:
        """As the legend calls it."""
        return STOPPED if self.stopped else BEST if self.best else FINISHED


@dataclass(frozen=True)
class TunedKey:
    """A key; its panel may have a logarithmic axis."""

    name: str
    logarithmic: bool = False


@styled()
def trial_panels(keys: Sequence[TunedKey], dots: Sequence[Dot]) -> "Figure":
    """Small multiples; a line joins the means of values that several trials share, or all trials of a single key."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    columns = min(COLUMNS, len(keys))
    lines = -(-len(keys) // columns)
    figure = Figure(figsize=(0.6 + 3.2 * columns, 0.6 + 2.4 * lines), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
    for place, (axis, key) in enumerate(zip(grid, keys, strict=False)):
        _draw(axis, key, [(own.values[place], own) for own in dots])
        if place % columns == 0:
            axis.set_ylabel("accuracy (%)")
    for axis in grid[len(keys) :]:
        axis.set_visible(False)
    legend(figure, columns=4)
    return figure


def _draw(axis: "Axes", key: TunedKey, dots: Sequence[tuple[float | str, Dot]]) -> None:
    words = list(dict.fromkeys(str(value) for value, _ in dots if isinstance(value, str)))
    at = [words.index(str(value)) if words else float(value) for value, _ in dots]
    means = _means([(place, own.accuracy) for place, (_, own) in zip(at, dots, strict=True) if not own.stopped])
    if len(means) < sum(not own.stopped for _, own in dots):  # values come back: their means say more than dots
        axis.plot(
            list(means), list(means.values()), color=COLOURS[0], linewidth=1.2, alpha=0.7, label="mean of a value"
        )
    for label, marker, shade in ((FINISHED, "o", COLOURS[0]), (STOPPED, "x", COLOURS[5]), (BEST, "D", COLOURS[1])):
        own = [(x, dot.accuracy) for x, (_, dot) in zip(at, dots, strict=True) if dot.kind == label]
        size = 7 if label == BEST else 5
        if own:
            x, y = zip(*own, strict=True)
            axis.plot(x, y, linestyle="none", marker=marker, color=shade, markersize=size, label=label)
    axis.set_title(plain(key.name), color=INK, parse_math=False)
    if words:
        axis.set_xticks(range(len(words)), [plain(word, 14) for word in words])
        axis.set_xlim(-0.5, len(words) - 0.5)
    elif key.logarithmic:
        axis.set_xscale("log")
    axis.grid(axis="y")


def _means(points: Sequence[tuple[float, float]]) -> dict[float, float]:
    """The mean of every value, by its place."""
    places = sorted({place for place, _ in points})
    each = {place: [own for at, own in points if at == place] for place in places}
    return {place: sum(own) / len(own) for place, own in each.items()}
