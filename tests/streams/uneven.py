"""Digits as tasks of different numbers of classes, of which some return."""

import numpy as np

from gradcast.data.digits import digits
from gradcast.data.images import Images
from gradcast.streams.stream import Stream, Subset, Task

TASK_CLASSES = ((3, 5, 8), (1,), (5, 7), (0, 1))


def uneven_stream(
    task_classes: tuple[tuple[int, ...], ...] = TASK_CLASSES, *, samples: int | None = None, labels: int | None = None
) -> Stream:
    source = digits(0)

    def only(images: Images, classes: tuple[int, ...]) -> Subset:
        kept = np.flatnonzero(np.isin(images.y, classes))
        return Subset(images.x, kept, np.array([classes.index(label) for label in images.y[kept]]))

    tasks = [Task(only(source.train, own), only(source.test, own), own) for own in task_classes]
    facts = {"classes": list(source.classes)}
    return Stream(tasks, source.shape, facts, "uneven", samples=samples, labels=labels)
