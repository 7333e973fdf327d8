"""Tasks of the user's own: a labelled dataset each, in which classes of one name are one class."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from gradcast.data.class_counts import TaskCounts, tasks_in_words
from gradcast.data.images import Colour, Moments, Shape, Source, is_vector
from gradcast.data.own_images import Array, Labels, from_datasets, own_data
from gradcast.data.scan import digest
from gradcast.errors import GradcastError

SUMS = ("total", "squares")  # of moments
AnyTask = Source | tuple[Array, Labels, Array, Labels] | tuple[Dataset[Any], Dataset[Any]]


@dataclass(frozen=True)
class OwnTasks:
    """Tasks in the order in which they are learned; their classes are numbered in the order of first appearance."""

    names: tuple[str, ...]
    sources: tuple[Source, ...]
    name: str = "your tasks"

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            only = f"one task, {self.names[0]!r}" if self.names else "no task"
            raise GradcastError(
                f"{self.name} has {only}, and a stream of tasks needs two or more; for one task set "
                "stream.source=folder or npz, stream.scenario=split and stream.tasks=1"
            )
        check_names(self.names, self.name)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The classes of all tasks."""
        return tuple(dict.fromkeys(label for source in self.sources for label in source.classes))

    def numbers(self, task: int) -> tuple[int, ...]:
        """What each class of the task's dataset is among all classes."""
        place = {label: number for number, label in enumerate(self.classes)}
        return tuple(place[label] for label in self.sources[task].classes)

    @property
    def shape(self) -> Shape:
        """Channels, height and width, which all tasks share."""
        first = self.sources[0].shape
        for name, source in zip(self.names, self.sources, strict=True):
            if source.shape == first:
                continue
            if is_vector(first) or is_vector(source.shape):
                remedy = "bring images alone, or vectors of one length"
            else:
                remedy = "set stream.size to the pixels a side that all should have, and stream.colour to grey or rgb"
            own, other = (f"{_kind(shape)} of shape {shape}" for shape in (first, source.shape))
            raise GradcastError(f"task {self.names[0]!r} has {own} and task {name!r} {other}; {remedy}")
        return first

    @property
    def content(self) -> str:
        """A digest of images and labels, and of what tasks and classes are called."""
        return digest(
            line
            for name, source in zip(self.names, self.sources, strict=True)
            for line in (name, source.content, *source.classes)
        )[:16]

    @property
    def moments(self) -> Moments:
        """Sums over the training images of all tasks."""
        own = [source.moments for source in self.sources]
        total, squares = ([sum(each) for each in zip(*(getattr(m, part) for m in own), strict=True)] for part in SUMS)
        return Moments(sum(m.count for m in own), tuple(total), tuple(squares))

    def counts(self) -> dict[str, list[int]]:
        """How many images each class has in all tasks together, to train and to test on."""
        found = {part: np.zeros(len(self.classes), dtype=np.int64) for part in ("train", "test")}
        for task, source in enumerate(self.sources):
            for part, each in source.counts().items():
                found[part][list(self.numbers(task))] += each
        return {part: each.tolist() for part, each in found.items()}

    def converted(self, colour: Colour, size: int | None) -> "OwnTasks":
        """The same in grey or colour and at another size, where that is asked for."""
        return OwnTasks(self.names, tuple(source.converted(colour, size) for source in self.sources), self.name)

    def classes_in_words(self) -> str:
        """The tasks with their classes and numbers of images."""
        told = tasks_in_words(
            [
                TaskCounts(name, source.classes, len(source.train), len(source.test))
                for name, source in zip(self.names, self.sources, strict=True)
            ]
        )
        classes = "1 class" if len(self.classes) == 1 else f"{len(self.classes):,} classes"
        return f"{len(self.names):,} tasks, {classes}. {'. '.join(told)}"


def own_tasks(tasks: Sequence[AnyTask] | Mapping[str, AnyTask]) -> OwnTasks:
    """Tasks from arrays, tensors or torch Datasets, for ``gradcast.run(spec, source=...)``.

    Args:
        tasks: one entry a task, in order: ``(x_train, y_train, x_test, y_test)``, ``(train, test)`` of two torch
            Datasets, or what ``own_data`` gave. A dict also says what the tasks are called. Labels of one name are
            one class, in whichever task they come.
    """
    named = tasks if isinstance(tasks, Mapping) else {str(number): task for number, task in enumerate(tasks)}
    sources = list[Source]()
    for name, task in named.items():
        with told_of(str(name)):
            sources.append(_source(task, str(name)))
    return OwnTasks(tuple(map(str, named)), tuple(sources))


def _source(task: Any, name: str) -> Source:  # noqa: ANN401 -- anything may be given
    match task:
        case Source():
            return task
        case (Dataset() as train, Dataset() as test):
            return from_datasets(train, test, name=name)
        case (x_train, y_train, x_test, y_test):
            return own_data(x_train, y_train, x_test, y_test, name=name)
    raise GradcastError(
        f"a {type(task).__name__} is no task; give (x_train, y_train, x_test, y_test), two torch Datasets, or what "
        "gradcast.own_data returns"
    )


def _kind(shape: Shape) -> str:
    return "vectors" if is_vector(shape) else "images"


@contextmanager
def told_of(name: str) -> Iterator[None]:
    """What is wrong with a task is told with its name."""
    try:
        yield
    except GradcastError as error:
        raise GradcastError(f"task {name!r}: {error}") from None


def check_names(names: Sequence[str], where: str) -> None:
    """Refuse two tasks of one name."""
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise GradcastError(f"{times} tasks of {where} are called {name!r}; rename all but one, or leave them out")
