"""Scenarios turn one source into many tasks: *rotated* and *permuted* move pixels, *split* divides the classes.

A rotation by the nearest neighbour and a permutation are the same thing: a map that says for each pixel where it
comes from.
"""

from typing import Literal

import numpy as np
from jaxtyping import Int
from PIL import Image

from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator
from gradcast.streams.images import Source
from gradcast.streams.stream import Stream, Task

Scenario = Literal["rotated", "permuted", "split"]
HALF_TURN = 180.0


def build(
    source: Source,
    scenario: Scenario,
    *,
    tasks: int,
    classes_per_task: int | None,
    samples: int | None,
    data_seed: int,
) -> Stream:
    """The stream of ``tasks`` tasks; ``samples`` labelled images a task (None: all it has)."""
    match scenario:
        case "rotated":
            parts, facts = _rotated(source, tasks, data_seed)
        case "permuted":
            parts, facts = _permuted(source, tasks, data_seed)
        case "split":
            parts, facts = _split(source, tasks, classes_per_task)
    if scenario != "split" and classes_per_task not in (None, source.classes):
        raise GradcastError(
            f"stream.classes_per_task applies to the scenario 'split'; every {scenario} task has all classes"
        )
    for index, task in enumerate(parts):
        if samples is not None and samples > len(task.train):
            raise GradcastError(
                f"task {index} has {len(task.train)} training images, stream.samples asks for {samples}; lower it"
            )
    width = source.classes if scenario != "split" else facts["class_order"].shape[1]
    return Stream(parts, shape=source.shape, width=width, samples=samples, facts=facts)


def _rotated(source: Source, tasks: int, data_seed: int) -> tuple[list[Task], dict[str, np.ndarray]]:
    """Task t turns every image by one angle, uniform in its own T-th part of a half turn."""
    span = HALF_TURN / tasks
    generator = numpy_generator(data_seed, "rotated")
    angles = np.array([generator.uniform(span * t, span * (t + 1)) for t in range(tasks)])
    parts = [Task(source.train, source.test, rotation(source.shape, angle)) for angle in angles]
    return parts, {"angles": angles}


def _permuted(source: Source, tasks: int, data_seed: int) -> tuple[list[Task], dict[str, np.ndarray]]:
    """Task t shuffles the pixels by its own permutation; the first task is permuted too."""
    generator = numpy_generator(data_seed, "permuted")
    permutations = np.stack([generator.permutation(int(np.prod(source.shape))) for _ in range(tasks)])
    return [Task(source.train, source.test, order) for order in permutations], {"permutations": permutations}


def _split(source: Source, tasks: int, classes_per_task: int | None) -> tuple[list[Task], dict[str, np.ndarray]]:
    """Task t holds the next classes in natural order."""
    width = classes_per_task or source.classes // tasks
    if width < 1 or width * tasks > source.classes:
        raise GradcastError(
            f"{tasks} tasks of {max(width, 1)} classes need {tasks * max(width, 1)} classes and {source.name} has "
            f"{source.classes}; lower stream.tasks or stream.classes_per_task"
        )
    order = np.arange(width * tasks).reshape(tasks, width)
    parts = [Task(source.train.only(own), source.test.only(own), None) for own in order.tolist()]
    for index, task in enumerate(parts):
        if not len(task.train) or not len(task.test):
            raise GradcastError(
                f"task {index} (classes {order[index].tolist()}) has no training or no test images in {source.name}"
            )
    return parts, {"class_order": order}


def rotation(shape: tuple[int, int, int], angle: float) -> Int[np.ndarray, " pixels"]:
    """Where each pixel comes from when an image is turned counter-clockwise by ``angle`` degrees; -1 outside.

    Pillow turns an image whose pixel values are their own places, so the map is Pillow's rotation by definition.
    """
    channels, height, width = shape
    places = np.arange(1, height * width + 1, dtype=np.int32).reshape(height, width)
    turned = np.asarray(Image.fromarray(places).rotate(angle, Image.Resampling.NEAREST)).astype(np.int64).ravel() - 1
    planes = np.arange(channels)[:, None] * (height * width)
    return np.where(turned[None] < 0, -1, turned[None] + planes).ravel()
