"""Features of several tasks in two dimensions, and how well a linear probe tells the tasks apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

DRAWN = 600  # points of a picture, equally many of every task
RIDGE = 1e-3  # of the probe, beside features of variance one

Features = Float[np.ndarray, "_ features"]  # one row an image; tasks may have different numbers of them


@dataclass(frozen=True)
class View:
    """One kind of features."""

    points: Float[np.ndarray, "points 2"]  # on their first two principal components
    explained: float  # share of the variance that these two have
    probe: float  # share of held-out images whose task a linear probe tells


@dataclass(frozen=True)
class FeatureMap:
    """Shared and private features of the same test images."""

    tasks: Int[np.ndarray, " points"]  # whose images the points are
    shared: View
    private: View

    @property
    def chance(self) -> float:
        """What a probe tells that knows nothing."""
        return 1 / (1 + int(self.tasks.max()))

    def by_task(self, view: View) -> list[Float[np.ndarray, "_ 2"]]:
        """The points of every task."""
        return [view.points[self.tasks == task] for task in range(1 + int(self.tasks.max()))]


def feature_map(shared: Sequence[Features], private: Sequence[Features]) -> FeatureMap:
    """Features of equally ordered images, task by task."""
    drawn = [_spread(len(own), DRAWN // len(shared)) for own in shared]
    tasks = np.repeat(np.arange(len(shared)), [len(own) for own in drawn])
    return FeatureMap(tasks, _view(shared, drawn), _view(private, drawn))


def _view(features: Sequence[Features], drawn: Sequence[Int[np.ndarray, " _"]]) -> View:
    points, explained = principal(np.concatenate(features))
    starts = np.cumsum([0, *(len(own) for own in features[:-1])])
    chosen = np.concatenate([start + own for start, own in zip(starts, drawn, strict=True)])
    return View(points[chosen], explained, probe(features))


def _spread(count: int, most: int) -> Int[np.ndarray, " own"]:
    """So many places at most, spread evenly: images of a class lie side by side."""
    return np.unique(np.linspace(0, count - 1, min(count, max(most, 1))).round().astype(int))


def principal(features: Features) -> tuple[Float[np.ndarray, "_ 2"], float]:
    """Coordinates on the first two principal components, and their share of the variance.

    A component points where its largest weight is positive, so that the picture is the same each time.
    """
    centred = np.asarray(features, np.float64) - features.mean(0, dtype=np.float64)
    _, lengths, components = np.linalg.svd(centred, full_matrices=False)
    first = components[:2]
    largest = first[np.arange(len(first)), np.abs(first).argmax(1)]
    points = centred @ (first * np.where(largest < 0, -1.0, 1.0)[:, None]).T
    total = float(np.square(lengths).sum())
    share = float(np.square(lengths[:2]).sum()) / total if total > 0 else 0.0
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1]))), share


def probe(features: Sequence[Features]) -> float:
    """Share of every second image whose task least squares, fitted to the others, tells; the mean over tasks."""
    fitted = [np.asarray(own[::2], np.float64) for own in features]
    held = [np.asarray(own[1::2], np.float64) for own in features]
    x, tasks = np.concatenate(fitted), np.repeat(np.arange(len(fitted)), [len(own) for own in fitted])
    mean, scale = x.mean(0), max(float(x.std()), np.finfo(float).tiny)
    answers = np.eye(len(features))[tasks]
    x = (x - mean) / scale
    weights = np.linalg.solve(x.T @ x + RIDGE * len(x) * np.eye(x.shape[1]), x.T @ (answers - answers.mean(0)))
    said = [(((own - mean) / scale) @ weights + answers.mean(0)).argmax(1) for own in held]
    return float(np.mean([(own == task).mean() for task, own in enumerate(said) if len(own)]))
