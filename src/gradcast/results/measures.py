"""Measures of one accuracy matrix, as pure functions of it.

``matrix[i, j]`` is the accuracy on task j after training on i tasks; row 0 is before training, the last row the end.
"""

from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float

Matrix = Float[np.ndarray, "rows tasks"]
# What a mean over seeds cannot leave; errors are in per cent.
BOUNDS = {
    **dict.fromkeys(("acc", "learning_accuracy"), (0.0, 1.0)),
    **dict.fromkeys(("bwt", "fwt", "bwt_ref", "fwt_ref", "forgetting"), (-1.0, 1.0)),
    **dict.fromkeys(("last_error", "best_error"), (0.0, 100.0)),
}


@dataclass(frozen=True)
class Measures:
    """Fractions, not per cent. ``*_ref`` divide by T, as the published tables do; the others by T - 1, as defined."""

    acc: float
    bwt: float
    fwt: float
    bwt_ref: float
    fwt_ref: float
    learning_accuracy: float
    forgetting: float

    def as_dict(self) -> dict[str, float]:
        """All measures by name."""
        return asdict(self)


def measure(matrix: Matrix) -> Measures:
    """All measures of a finished stream; with a single task those that compare tasks are 0."""
    tasks = matrix.shape[1]
    if matrix.shape[0] != tasks + 1:
        raise ValueError(f"{tasks} tasks need {tasks + 1} rows (one before training), got {matrix.shape[0]}")
    backward, forward = _backward(matrix), _forward(matrix)
    others = max(tasks - 1, 1)
    return Measures(
        acc=float(matrix[-1].mean()),
        bwt=float(backward.sum() / others),
        fwt=float(forward.sum() / others),
        bwt_ref=float(backward.sum() / tasks),
        fwt_ref=float(forward.sum() / tasks),
        learning_accuracy=float(np.diagonal(matrix, -1).mean()),
        forgetting=float(_forgotten(matrix).sum() / others),
    )


def _backward(matrix: Matrix) -> Float[np.ndarray, " earlier"]:
    """Change on each task but the last, from the end of its own training to the end of the stream."""
    change: np.ndarray = np.subtract(matrix[-1, :-1], np.diagonal(matrix, -1)[:-1])
    return change


def _forward(matrix: Matrix) -> Float[np.ndarray, " later"]:
    """Accuracy on each task but the first just before its training, over that of the untrained model."""
    change: np.ndarray = np.subtract(np.diagonal(matrix, 0)[1:], matrix[0, 1:])
    return change


def _forgotten(matrix: Matrix) -> Float[np.ndarray, " earlier"]:
    """What each task but the last has lost since its best time before the last task; negative where the end is best."""
    change: np.ndarray = np.subtract(matrix[1:-1, :-1].max(0, initial=0.0), matrix[-1, :-1])
    return change
