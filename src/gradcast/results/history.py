"""The course of a run on one task: what the tests while training say, step by step."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from gradcast.runs.step_log import Line
from gradcast.training.schedule_tables import StepsSpec

# Numbers that are worth a curve over the steps, and what they are called there.
TESTS = {"test_error": "test error (%)", "loss": "training loss"}
UNLABELLED = {
    "pseudo_accuracy": "unlabelled images labelled rightly (%)",
    "signal_loss": "the unlabelled images' own loss",
    "label_movement": "how far meta-gradient moves labels",
    "cosine": "cosine to the true logit gradient",
}
HISTORY = TESTS | UNLABELLED


def when_tested(course: StepsSpec) -> Int[np.ndarray, " tests"]:
    """The steps that end in a test, counted from 1."""
    return np.arange(course.test_every, course.steps + 1, course.test_every)


def history(lines: Sequence[Line], course: StepsSpec) -> dict[str, Float[np.ndarray, " tests"]]:
    """Every number at every test; not a number where it was never written, or not yet."""
    found = {name: np.full(len(when_tested(course)), np.nan) for name in HISTORY}
    for line in lines:
        place, off = divmod(int(line["step"]) + 1, course.test_every)
        if off or not 0 < place <= len(when_tested(course)):
            continue
        for name, value in _told(line).items():
            if name in found and isinstance(value, float | int):
                found[name][place - 1] = value
    return found


def _told(line: Line) -> Line:
    """The line with shares in per cent, and an error for the accuracy."""
    told = dict(line)
    right, labels = line.get("test_accuracy"), line.get("pseudo_accuracy")
    if isinstance(right, float | int):
        told["test_error"] = 100 * (1 - right)
    if isinstance(labels, float | int):
        told["pseudo_accuracy"] = 100 * labels
    return told
