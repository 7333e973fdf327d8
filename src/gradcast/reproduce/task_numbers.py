"""What a seed did task by task: all that figures draw beside the measures of a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from gradcast.reproduce.cells import ROW
from gradcast.results.result import courses
from gradcast.runs.directory import RunDirectory
from gradcast.specs.spec import Setting

COURSES = ("loss", "gain", "cosine", "label_accuracy")  # means over the steps of a task
ACCURACY = "accuracy"
HUNDREDTHS = 10_000  # accuracies are whole hundredths of a per cent: exact for 500 and for 10,000 test images
ABSENT = "-"


@dataclass(frozen=True)
class TaskNumbers:
    """One seed: its accuracy matrix, and of its steps the mean in each task."""

    matrix: Float[np.ndarray, "rows tasks"]
    courses: Mapping[str, Float[np.ndarray, " tasks"]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """For JSON, a line for each row of the matrix and for each course: lists of numbers would take a line each."""
        shares = np.rint(self.matrix * HUNDREDTHS).astype(int)
        told = {name: " ".join(map(_word, values)) for name, values in self.courses.items()}
        return {ACCURACY: [" ".join(map(str, row)) for row in shares], **told}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "TaskNumbers":
        """What ``as_dict`` wrote; anything else is a ValueError."""
        matrix = np.array([[int(word) for word in row.split()] for row in stored[ACCURACY]]) / HUNDREDTHS
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] + 1 or not (matrix >= 0).all() or matrix.max() > 1:
            raise ValueError("an accuracy matrix has a row before training and one a task, of shares")
        own = {name: np.array([_number(word) for word in stored[name].split()]) for name in COURSES if name in stored}
        if any(len(values) != matrix.shape[1] for values in own.values()):
            raise ValueError(f"there are {matrix.shape[1]} tasks, and something has another number of them")
        return cls(matrix, own)


def task_numbers(
    setting: Setting, place: RunDirectory, seed: int, matrix: Float[np.ndarray, "rows tasks"]
) -> TaskNumbers:
    """Of a seed that lies in this place, whose accuracy ``matrix`` is known already."""
    found = courses(setting, [place.metrics(ROW, seed, setting.stream.task_count)], COURSES)
    return TaskNumbers(matrix, {name: values for name, (values,) in found.items()})


def _word(value: float) -> str:
    return ABSENT if np.isnan(value) else f"{value:.4g}"


def _number(word: str) -> float:
    return np.nan if word == ABSENT else float(word)
