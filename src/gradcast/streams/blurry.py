"""Blurry borders between tasks: neighbours exchange a share of their training images."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from jaxtyping import Int

from gradcast.data.images import Inputs
from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator
from gradcast.streams.stream import TASK_CLASSES, Subset, Task

ROUNDING = 1e-9  # half of 0.58 times 100 is 29, and a little less in floating point


def blurred(tasks: Sequence[Task], share: float, data_seed: int) -> tuple[list[Task], Mapping[str, object]]:
    """The same images in all: at a border, half of ``share`` of the smaller task change places with its neighbour's.

    Every task stays as long as it was, and its test set what it was. Its classes are those of all its training images:
    its own, then the others.
    """
    counts = [len(task.train) for task in tasks]
    borders = [int(share / 2 * min(pair) + ROUNDING) for pair in pairwise(counts)]
    if not any(borders):
        raise GradcastError(
            f"stream.blurry = {share} moves no image, the largest task has {max(counts)}; raise it, or leave it out"
        )
    source, places = _joined(tasks)
    labels = [np.array(task.classes)[task.train.y] for task in tasks]
    orders = [numpy_generator(data_seed, "blurry", number).permutation(count) for number, count in enumerate(counts)]
    for left, count in enumerate(borders):
        leaving, coming = orders[left][:count], orders[left + 1][counts[left + 1] - count :]
        for rows in (places, labels):
            rows[left][leaving], rows[left + 1][coming] = rows[left + 1][coming], rows[left][leaving]
    mixed = [_task(task, source, *own) for task, own in zip(tasks, zip(places, labels, strict=True), strict=True)]
    foreign = [sum(pair) for pair in zip([0, *borders], [*borders, 0], strict=True)]
    return mixed, {"foreign_images": foreign, TASK_CLASSES: [list(task.classes) for task in mixed]}


def _joined(tasks: Sequence[Task]) -> tuple[Inputs, list[Int[np.ndarray, " n"]]]:
    """One source for all tasks, and where in it each has its training images."""
    sources = [task.train.source for task in tasks]
    if all(source is sources[0] for source in sources):
        return sources[0], [task.train.places.copy() for task in tasks]
    starts = np.cumsum([0, *map(len, sources)])
    return np.concatenate(sources), [task.train.places + start for task, start in zip(tasks, starts, strict=False)]


def _task(task: Task, source: Inputs, places: Int[np.ndarray, " n"], labels: Int[np.ndarray, " n"]) -> Task:
    others = sorted(set(labels.tolist()) - set(task.classes))
    classes = (*task.classes, *others)
    place = {label: number for number, label in enumerate(classes)}
    y = np.array([place[label] for label in labels.tolist()], dtype=np.int64)
    return replace(task, train=Subset(source, places, y), classes=classes)
