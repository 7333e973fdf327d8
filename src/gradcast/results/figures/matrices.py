"""Heat maps of accuracy matrices: the task tested on to the right, the tasks trained on downwards."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from gradcast.results.figures.style import COLOURS, plain, styled
from gradcast.results.result import RowResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

Matrix = Float[np.ndarray, "rows tasks"]


@styled()
def accuracy_matrices(results: Sequence[RowResult]) -> "Figure":
    """The mean accuracy matrix of each row, side by side on one colour scale."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    figure = Figure(figsize=(1.2 + 3.0 * len(results), 3.4), layout="constrained")
    axes = figure.subplots(1, len(results), squeeze=False)[0]
    for axis, result in zip(axes, results, strict=True):
        image = _draw_accuracy(axis, result)
    axes[0].set_ylabel("after training on task")
    figure.colorbar(image, ax=list(axes), label="accuracy (%)", shrink=0.9).outline.set_visible(False)
    return figure


@styled()
def accuracy_matrix(result: RowResult) -> "Figure":
    """One row's mean accuracy matrix; all rows have the same colour scale, 0 to 100 %."""
    figure, axis = _panel()
    image = _draw_accuracy(axis, result)
    axis.set_ylabel("after training on task")
    figure.colorbar(image, ax=axis, label="accuracy (%)", aspect=30).outline.set_visible(False)
    return figure


@styled()
def difference_matrix(result: RowResult, base: RowResult, limit: float) -> "Figure":
    """Where a row is better (blue) and worse (orange) than the first, in points from -limit to limit."""
    from matplotlib.colors import LinearSegmentedColormap

    blue, orange = COLOURS[:2]
    fading = [(orange, 1.0), (orange, 0.0), (blue, 0.0), (blue, 1.0)]  # nothing is transparent, on paper and on black
    colours = LinearSegmentedColormap.from_list("difference", list(zip((0, 0.5, 0.5, 1), fading, strict=True)))
    figure, axis = _panel()
    image = _draw(axis, difference(result, base), limits=(-limit, limit), colours=colours)
    axis.set_title(f"{plain(result.label, 34)}\nminus {plain(base.label, 28)}", parse_math=False)
    axis.set_ylabel("after training on task")
    figure.colorbar(image, ax=axis, label="points", aspect=30).outline.set_visible(False)
    return figure


def difference(result: RowResult, base: RowResult) -> Matrix:
    """Mean difference of two rows' matrices, in points: of the seeds that both have, or of their means without any."""
    common = [seed for seed in result.seeds if seed in base.seeds]
    own, other = (
        row.matrices[[row.seeds.index(seed) for seed in common] if common else slice(None)].mean(0)
        for row in (result, base)
    )
    found: np.ndarray = 100 * (own - other)
    return found


def _panel() -> tuple["Figure", "Axes"]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.5, 3.1), layout="constrained")
    return figure, figure.subplots()


def _draw_accuracy(axis: "Axes", result: RowResult) -> "AxesImage":
    image = _draw(axis, 100 * result.matrices.mean(0), limits=(0, 100), colours="viridis")
    axis.set_title(
        f"{plain(result.label, 34)}\n{result.compared} {100 * result.over_seeds('acc').mean:.1f} %", parse_math=False
    )
    return image


def _draw(axis: "Axes", matrix: Matrix, *, limits: tuple[float, float], colours: "str | Colormap") -> "AxesImage":
    """The model before training has a line of its own on top; a pixel a number, also in an SVG."""
    tasks = matrix.shape[1]
    gap = 0.02 * tasks
    for part, top in ((matrix[:1], -0.5 - gap), (matrix[1:], 0.5)):
        extent = (-0.5, tasks - 0.5, top + len(part), top)
        image = axis.imshow(part, colours, aspect="auto", interpolation="none", extent=extent)
        image.set_clim(*limits)
    axis.set_ylim(tasks + 0.5, -0.5 - gap)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    axis.set_xlabel("tested on task")
    shown = _ticks(tasks)
    axis.set_xticks(shown, [str(task + 1) for task in shown])
    after = shown if tasks < 10 else shown[1:]  # the first would touch the line above it
    axis.set_yticks([-gap, *(task + 1 for task in after)], ["before", *(str(task + 1) for task in after)])
    return image


def _ticks(tasks: int) -> list[int]:
    return [int(task) for task in np.unique(np.linspace(0, tasks - 1, min(tasks, 5)).round())]
