"""Features of all tasks in two dimensions: shared ones to the left, private ones to the right."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradcast.results.feature_map import FeatureMap, View
from gradcast.results.figures.style import colour, mark, plain, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@styled()
def feature_panels(portraits: Sequence[tuple[str, FeatureMap]]) -> "Figure":
    """A line of two panels for each row, under one legend of tasks; a task has colour and mark of its own."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    tasks = max(len(own.by_task(own.shared)) for _, own in portraits)
    lines = -(-tasks // 7)
    figure = Figure(figsize=(7.4, 0.4 + 3.2 * len(portraits) + 0.17 * lines), layout="constrained")
    grid = figure.subplots(len(portraits), 2, squeeze=False)
    for (left, right), (label, feature_map) in zip(grid, portraits, strict=True):
        _draw(left, f"{plain(label, 34)}\nshared features", feature_map, feature_map.shared)
        _draw(right, "\nprivate features", feature_map, feature_map.private)
    handles, texts = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower left", ncols=min(tasks, 7), fontsize=8)
    return figure


def _draw(axis: "Axes", title: str, feature_map: FeatureMap, view: View) -> None:
    """Axes have no scale: only nearness means something."""
    for task, points in enumerate(feature_map.by_task(view)):
        axis.plot(
            *points.T,
            linestyle="",
            color=colour(task),
            marker=mark(task),
            markersize=3,
            alpha=0.6,
            markeredgewidth=0,
            label=f"task {task + 1}",
        )
    axis.set_title(f"{title}: {said(feature_map, view)}", parse_math=False)
    axis.set_xlabel(f"first two components, {100 * view.explained:.0f} % of the variance")
    axis.set_xticks([])
    axis.set_yticks([])


def said(feature_map: FeatureMap, view: View) -> str:
    """How well the probe tells tasks."""
    return f"task told {100 * view.probe:.0f} %, chance {100 * feature_map.chance:.0f} %"
