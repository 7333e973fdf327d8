"""Scenarios turn one source into many tasks: *rotated* and *permuted* move pixels, *split* divides the classes.

A rotation by the nearest neighbour and a permutation are the same thing: a map that says for each pixel where it comes
from.
"""

import random
import warnings
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from PIL import Image

from gradcast.data.images import Shape, Source
from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator
from gradcast.streams.stream import Task

Scenario = Literal["rotated", "permuted", "split"]
ClassOrder = Literal["natural", "shuffled"] | Sequence[int]
HALF_TURN = 180.0

Tasks = tuple[list[Task], int, Mapping[str, np.ndarray]]  # the tasks, classes in each, what was drawn


def rotated(source: Source, tasks: int, data_seed: int) -> Tasks:
    """Task t turns every image by one angle, uniform in its own T-th part of a half turn."""
    span = HALF_TURN / tasks
    generator = random.Random(data_seed)  # Python's, as the published script; its own angles were drawn unseeded
    angles = np.array([span * (t + generator.random()) for t in range(tasks)])
    parts = [Task(source.train, source.test, rotation(source.shape, angle)) for angle in angles]
    return parts, len(source.classes), {"angles": angles}


def permuted(source: Source, tasks: int, data_seed: int) -> Tasks:
    """Task t shuffles the pixels by its own permutation; the first task is permuted too."""
    generator = torch.Generator().manual_seed(
        data_seed
    )  # torch's, as the published script: seed 0 gives its permutations
    pixels = int(np.prod(source.shape))
    permutations = np.stack([torch.randperm(pixels, generator=generator).numpy() for _ in range(tasks)])
    parts = [Task(source.train, source.test, order) for order in permutations]
    return parts, len(source.classes), {"permutations": permutations}


def split(
    source: Source, tasks: int, data_seed: int, *, classes_per_task: int | None, class_order: ClassOrder
) -> Tasks:
    """Task t holds the next classes of the order."""
    classes = len(source.classes)
    width = classes_per_task or classes // tasks
    if width < 1 or width * tasks > classes:
        raise GradcastError(
            f"{tasks} tasks of {max(width, 1)} classes need {tasks * max(width, 1)} classes and {source.name} has "
            f"{classes}; lower stream.tasks or stream.classes_per_task"
        )
    if classes_per_task is None and width * tasks < classes:
        warnings.warn(
            f"{tasks} tasks of {width} classes leave out {classes - width * tasks} of the {classes} of {source.name}",
            stacklevel=2,
        )
    order = _order(source, class_order, data_seed)
    if len(order) < width * tasks:
        raise GradcastError(
            f"stream.class_order lists {len(order)} classes, {tasks} tasks of {width} need {width * tasks}"
        )
    rows = np.array(order[: width * tasks]).reshape(tasks, width)
    parts = [Task(source.train.only(own), source.test.only(own), None) for own in rows.tolist()]
    for index, task in enumerate(parts):
        if not len(task.train) or not len(task.test):
            raise GradcastError(f"task {index} (classes {rows[index].tolist()}) has no training or no test images")
    return parts, width, {"class_order": rows}


def _order(source: Source, class_order: ClassOrder, data_seed: int) -> list[int]:
    if class_order == "natural":
        return list(range(len(source.classes)))
    if class_order == "shuffled":
        shuffled: list[int] = numpy_generator(data_seed, "class order").permutation(len(source.classes)).tolist()
        return shuffled
    listed = [int(label) for label in class_order]
    strangers = [label for label in listed if not 0 <= label < len(source.classes)]
    if strangers or len(set(listed)) < len(listed):
        wrong = f"class {strangers[0]}, which {source.name} has not" if strangers else "a class twice"
        raise GradcastError(
            f"stream.class_order lists {wrong}; classes are 0 to {len(source.classes) - 1}, each at most once"
        )
    return listed


def rotation(shape: Shape, angle: float) -> Int[np.ndarray, " pixels"]:
    """Where each pixel comes from when an image is turned counter-clockwise by ``angle`` degrees; -1 outside.

    Pillow turns an image whose pixel values are their own places, so the map is Pillow's rotation by definition.
    """
    channels, height, width = shape
    places = np.arange(1, height * width + 1, dtype=np.int32).reshape(height, width)
    turned = np.asarray(Image.fromarray(places).rotate(angle, Image.Resampling.NEAREST)).astype(np.int64).ravel() - 1
    planes = np.arange(channels)[:, None] * (height * width)
    return np.where(turned[None] < 0, -1, turned[None] + planes).ravel()
