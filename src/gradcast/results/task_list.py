"""The tasks of the user's own by name, with their classes, for reports."""

from collections.abc import Mapping
from typing import Any

from gradcast.data.class_counts import listed
from gradcast.streams.stream import TASK_CLASSES

HEAD = ("task", "name", "classes", "images to train on", "images to test on")


def task_list(facts: Mapping[str, Any]) -> list[list[str]]:
    """A row a task, by what a run has stored of its stream; none where tasks have no names, or a file was damaged."""
    try:
        names, classes = facts["task_names"], facts["classes"]
        counts = [facts["labelled_images"], facts["test_images"]]
        return [
            [str(task + 1), str(name), listed([str(classes[label]) for label in own]), *(f"{int(n):,}" for n in images)]
            for task, (name, own, *images) in enumerate(zip(names, facts[TASK_CLASSES], *counts, strict=True))
        ]
    except (KeyError, TypeError, ValueError, IndexError):
        return []
