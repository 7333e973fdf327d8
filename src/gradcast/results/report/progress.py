"""What a row shows while it still trains: whole lines of files that somebody is writing."""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from gradcast.runs.directory import damaged
from gradcast.runs.step_log import Line, logged, shares

Matrix = Float[np.ndarray, "rows tasks"]


def accuracy_so_far(file: Path, tasks: int) -> Matrix:
    """The accuracy matrix; not a number where training has not come yet."""
    matrix = np.full((tasks + 1, tasks), np.nan)
    try:
        found = shares(_lines(file)[1:], tasks)  # after the heading
        if len(found) > tasks + 1:
            raise ValueError(f"{len(found)} rows for {tasks} tasks")
        matrix[: len(found)] = np.reshape(found, (-1, tasks))
    except (OSError, ValueError) as error:
        raise damaged(file, error) from None
    return matrix


def metrics_so_far(file: Path, tasks: int) -> list[Line]:
    """The steps that an unfinished run has logged."""
    try:
        return logged(_lines(file), tasks)
    except (OSError, ValueError) as error:
        raise damaged(file, error) from None


def over_seen_tasks(matrix: Matrix) -> Float[np.ndarray, " tasks"]:
    """Mean accuracy in per cent over the tasks seen, after each of them."""
    return np.array([100 * matrix[done, :done].mean() for done in range(1, matrix.shape[0])])


def over_all_tasks(matrix: Matrix) -> Float[np.ndarray, " tasks"]:
    """Mean accuracy in per cent over all tasks, those ahead too, after each of them."""
    found: np.ndarray = 100 * matrix[1:].mean(1)
    return found


def _lines(file: Path) -> list[str]:
    """None before the file is there; without the line that is being written."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return text[: text.rfind("\n") + 1].splitlines()
