"""Classes and their numbers of images in words, for a person to check before training."""

from collections.abc import Sequence
from dataclasses import dataclass

MOST = 20  # classes that are named


def in_words(classes: Sequence[str], train: Sequence[int], test: Sequence[int]) -> str:
    """Every class with its images to train and to test on; of many classes the first."""
    named = [f"{label} ({a:,} and {b:,})" for label, a, b in zip(classes, train, test, strict=True)][:MOST]
    more = "" if len(classes) <= MOST else f" and {len(classes) - MOST:,} more"
    return f"{len(classes):,} classes with images to train and to test on: {', '.join(named)}{more}"


@dataclass(frozen=True)
class TaskCounts:
    """A task by its name, its classes, and its numbers of images to train and to test on."""

    name: str
    classes: tuple[str, ...]
    train: int
    test: int


def tasks_in_words(tasks: Sequence[TaskCounts]) -> list[str]:
    """Every task with its images and with the classes that are new or return; of many tasks the first."""
    sentences, known = list[str](), set[str]()
    for task in tasks[:MOST]:
        groups = {
            "new": [label for label in task.classes if label not in known],
            "again": [label for label in task.classes if label in known],
        }
        told = "; ".join(f"{word}: {listed(labels)}" for word, labels in groups.items() if labels)
        sentences.append(f"task {task.name!r}: {task.train:,} images to train and {task.test:,} to test on; {told}")
        known.update(task.classes)
    more = len(tasks) - MOST
    return [*sentences, *([f"and {more:,} more tasks"] if more > 0 else [])]


def listed(labels: Sequence[str]) -> str:
    """Names of classes; of many the first."""
    more = len(labels) - MOST
    return ", ".join(labels[:MOST]) + (f" and {more:,} more" if more > 0 else "")
