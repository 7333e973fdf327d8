"""Scenarios turn one source into many tasks: *rotated* and *permuted* move pixels, *split* divides the classes.

A rotation by the nearest neighbour and a permutation are the same thing: a map that says for each pixel where it comes
from.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from PIL import Image

from gradcast.data.images import Images, Shape, Source
from gradcast.data.own_tasks import OwnTasks
from gradcast.errors import GradcastError, warn
from gradcast.randomness import numpy_generator
from gradcast.streams.stream import TASK_CLASSES, Subset, Task

Scenario = Literal["rotated", "permuted", "split", "own"]
ClassOrder = Literal["natural", "shuffled"] | Sequence[int]
HALF_TURN = 180.0

Tasks = tuple[list[Task], Mapping[str, np.ndarray]]  # the tasks, and what was drawn


def rotated(source: Source, tasks: int, data_seed: int) -> Tasks:
    """Task t turns every image by one angle, uniform in its own T-th part of a half turn."""
    span = HALF_TURN / tasks
    generator = random.Random(data_seed)  # Python's, as the published script; its own angles were drawn unseeded
    angles = np.array([span * (t + generator.random()) for t in range(tasks)])
    parts = [_moved(source, rotation(source.shape, angle)) for angle in angles]
    return parts, {"angles": angles}


def permuted(source: Source, tasks: int, data_seed: int) -> Tasks:
    """Task t shuffles the pixels by its own permutation; the first task is permuted too."""
    generator = torch.Generator().manual_seed(data_seed)  # torch's, as the published script: seed 0 gives its own
    pixels = int(np.prod(source.shape))
    permutations = np.stack([torch.randperm(pixels, generator=generator).numpy() for _ in range(tasks)])
    parts = [_moved(source, order) for order in permutations]
    return parts, {"permutations": permutations}


def split(
    source: Source, tasks: int, data_seed: int, *, classes_per_task: int | None, class_order: ClassOrder
) -> Tasks:
    """Task t holds the next classes of the order."""
    classes = len(source.classes)
    width = _width(source, tasks, classes_per_task)
    if classes_per_task is None and width * tasks < classes:
        warn(f"{tasks} tasks of {width} classes leave out {classes - width * tasks} of the {classes} of {source.name}")
    order = _order(source, class_order, data_seed)
    if len(order) < width * tasks:
        raise GradcastError(
            f"stream.class_order lists {len(order)} classes, {tasks} tasks of {width} need {width * tasks}"
        )
    rows = np.array(order[: width * tasks]).reshape(tasks, width)
    parts = [Task(_only(source.train, own), _only(source.test, own), tuple(own)) for own in rows.tolist()]
    for index, task in enumerate(parts):
        if not len(task.train) or not len(task.test):
            raise GradcastError(f"task {index} (classes {rows[index].tolist()}) has no training or no test images")
    return parts, {"class_order": rows}


def seeded(
    source: Source, tasks: int, *, classes_per_task: int | None
) -> tuple[Callable[[int], list[Task]], Mapping[str, object]]:
    """The same with a class order of each seed's own: that of ``numpy.random.RandomState(seed)``.

    Every class gives as many training images as the smallest has: tasks of all seeds are equally long.
    """
    classes, width = len(source.classes), _width(source, tasks, classes_per_task)
    places = [[np.flatnonzero(images.y == label) for label in range(classes)] for images in (source.train, source.test)]
    empty = [label for label in range(classes) if not all(len(part[label]) for part in places)]
    if empty:
        raise GradcastError(f"class {empty[0]} has no training or no test images; leave it out of the source")
    each = min(map(len, places[0]))

    @cache
    def of_seed(seed: int) -> list[Task]:
        rows = class_order(seed, classes)[: tasks * width].reshape(tasks, width).tolist()
        return [
            Task(
                _joined(source.train, [places[0][label][:each] for label in own]),
                _joined(source.test, [places[1][label] for label in own]),
                tuple(own),
            )
            for own in rows
        ]

    return of_seed, {"class_order": f"numpy.random.RandomState(seed).permutation({classes})"}


def own(tasks: OwnTasks) -> tuple[list[Task], Mapping[str, object]]:
    """Tasks as they are; the labels of each follow the order of the stream's classes."""
    parts = list[Task]()
    for number, source in enumerate(tasks.sources):
        numbers = np.array(tasks.numbers(number))
        place = np.argsort(np.argsort(numbers))  # tasks of the same classes have the same columns in the same order
        train, test = (Subset(part.x, np.arange(len(part)), place[part.y]) for part in (source.train, source.test))
        parts.append(Task(train, test, tuple(np.sort(numbers).tolist())))
    return parts, {"task_names": list(tasks.names), TASK_CLASSES: [list(part.classes) for part in parts]}


def class_order(seed: int, classes: int) -> Int[np.ndarray, " classes"]:
    """The published class order of this seed."""
    order: np.ndarray = np.random.RandomState(seed).permutation(classes)
    return order


def _moved(source: Source, origin: Int[np.ndarray, " pixels"]) -> Task:
    return Task(Subset.whole(source.train), Subset.whole(source.test), tuple(range(len(source.classes))), origin)


def _width(source: Source, tasks: int, classes_per_task: int | None) -> int:
    classes = len(source.classes)
    width = classes_per_task or classes // tasks
    if width < 1 or width * tasks > classes:
        raise GradcastError(
            f"{tasks} tasks of {max(width, 1)} classes need {tasks * max(width, 1)} classes and {source.name} has "
            f"{classes}; lower stream.tasks or stream.classes_per_task"
        )
    return width


def _only(images: Images, classes: Sequence[int]) -> Subset:
    """The images of these classes, labelled by their place in the list."""
    place = np.full(max(int(images.y.max(initial=0)), *classes) + 1, -1)
    place[list(classes)] = np.arange(len(classes))
    kept = np.flatnonzero(place[images.y] >= 0)
    return Subset(images.x, kept, place[images.y[kept]])


def _joined(images: Images, places: Sequence[np.ndarray]) -> Subset:
    """These places, class after class."""
    return Subset(images.x, np.concatenate(places), np.repeat(np.arange(len(places)), [len(each) for each in places]))


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
