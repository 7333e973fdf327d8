"""Pictures of results."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gradcast.result import RowResult


def accuracy_matrices(results: Sequence[RowResult], path: Path) -> None:
    """Heat maps of the mean accuracy matrix of each row, side by side on one colour scale."""
    from matplotlib.figure import Figure  # here, not above: half a second of start-up

    tasks = results[0].matrices.shape[2]
    figure = Figure(figsize=(1.2 + 3.4 * len(results), 4.0), layout="constrained", dpi=130)
    axes = figure.subplots(1, len(results), squeeze=False)[0]
    for axis, result in zip(axes, results, strict=True):
        image = axis.imshow(100 * result.matrices.mean(0), vmin=0, vmax=100, cmap="viridis", aspect="auto")
        title = f"{result.label}\nACC {100 * result.over_seeds('acc').mean:.1f} %"
        axis.set_title(title, fontsize=10, parse_math=False)
        axis.set_xlabel("tested on task")
        shown = _ticks(tasks)
        axis.set_xticks(shown, [str(task + 1) for task in shown])
        axis.set_yticks([0, *(task + 1 for task in shown)], ["before", *(str(task + 1) for task in shown)])
    axes[0].set_ylabel("after training on task")
    figure.colorbar(image, ax=list(axes), label="accuracy (%)", shrink=0.9)
    figure.savefig(path, metadata={"Software": "gradcast"})


def _ticks(tasks: int) -> list[int]:
    return [int(task) for task in np.unique(np.linspace(0, tasks - 1, min(tasks, 5)).round())]
