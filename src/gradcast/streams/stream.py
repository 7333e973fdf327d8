"""A stream: tasks in order, each with labelled images for every seed, images without a label, and a test set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from jaxtyping import Int

from gradcast.data.images import Images, Inputs, Shape, is_vector, move_pixels
from gradcast.randomness import numpy_generator
from gradcast.streams.augment import Augmentation
from gradcast.streams.choose_labels import choose_labelled
from gradcast.streams.scale import Scale

TASK_CLASSES = "task_classes"  # among what is stored with a run, where tasks differ in size or share classes


@dataclass(frozen=True)
class Subset:
    """Some images of a source, by their places in it, and their classes inside a task."""

    source: Inputs
    places: Int[np.ndarray, " n"]
    y: Int[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.places)

    @classmethod
    def whole(cls, images: Images) -> "Subset":
        """All images of a source."""
        return cls(images.x, np.arange(len(images)), images.y)

    def images(self, origin: Int[np.ndarray, " pixels"] | None = None) -> Images:
        """The images themselves, their pixels moved."""
        return Images(move_pixels(self.source[self.places], origin), self.y)


@dataclass(frozen=True)
class Task:
    """Images to train and to test on, and where each pixel comes from (None: stays where it is).

    ``classes`` are numbers in the stream's list of classes; the label of an image is the place of its class in them.
    """

    train: Subset
    test: Subset
    classes: tuple[int, ...]
    origin: Int[np.ndarray, " pixels"] | None = None


@dataclass(frozen=True)
class Stream:
    """All tasks; ``facts`` holds what was drawn to make them (angles, permutations, class order), stored with a run.

    Of a task's training images a seed is shown ``samples`` (None: all) times ``ratio``. Of those ``labels`` keep their
    label (None: all); the others are the task's own unlabelled images. Images that are not shown are held out.
    """

    tasks: Sequence[Task]  # of every seed; of seed 0 where seeds have tasks of their own
    shape: Shape
    facts: Mapping[str, object]
    content: str = ""  # a digest of the images and labels it was made of
    samples: int | None = None
    ratio: float = 1.0
    labels: int | None = None
    scale: Scale = field(default_factory=Scale)
    steps: tuple[Augmentation, ...] = ()  # augmentations of labelled training images
    own_tasks: Callable[[int], Sequence[Task]] | None = None  # tasks of a seed, where every seed has its own
    classes_in_words: str = ""  # of the source, with their numbers of images

    @classmethod
    def without_images(
        cls, shape: Shape, task_classes: Sequence[tuple[int, ...]], scale: Scale | None = None
    ) -> "Stream":
        """A stream of this shape that shows nothing: networks are made by the shape and the classes of a stream."""
        dtype = np.float32 if is_vector(shape) else np.uint8
        none = Subset(np.empty((0, *shape), dtype=dtype), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        return cls([Task(none, none, classes) for classes in task_classes], shape, {}, scale=scale or Scale())

    @property
    def task_classes(self) -> tuple[tuple[int, ...], ...]:
        """The classes of every task; of seed 0 where seeds have tasks of their own."""
        return tuple(task.classes for task in self.tasks)

    @property
    def same_classes(self) -> bool:
        """Whether all tasks have the same classes."""
        return len(set(self.task_classes)) == 1

    @property
    def width(self) -> int:
        """Classes of the task that has most."""
        return max(map(len, self.task_classes))

    def chance(self, task: int) -> float:
        """The accuracy of guessing among the task's classes."""
        return 1 / len(self.tasks[task].classes)

    def task(self, number: int, seed: int) -> Task:
        """A task as this seed sees it."""
        return self.tasks[number] if self.own_tasks is None else self.own_tasks(seed)[number]

    def shown(self, task: int) -> int:
        """Training images of the task that one seed is shown, with or without their label."""
        return max(round(self.ratio * (self.samples or len(self.tasks[task].train))), 1)

    def count(self, task: int) -> int:
        """Labelled training images of the task for one seed."""
        return self.shown(task) if self.labels is None else self.labels

    def order(self, task: int, seed: int) -> Int[np.ndarray, " images"]:
        """All training images of the task as a seed draws them; those beyond the ones shown are held out."""
        return numpy_generator(seed, "samples", task).permutation(len(self.tasks[task].train))

    def held_out(self, task: int, seed: int) -> Int[np.ndarray, " rest"]:
        """Training images of the task that the seed is not shown."""
        return self.order(task, seed)[self.shown(task) :]

    def labelled(self, task: int, seed: int) -> Int[np.ndarray, " labelled"]:
        """Training images whose label the seed is shown, in rising order."""
        shown = self._shown(task, seed)
        if self.labels is None:
            return shown
        y = self.task(task, seed).train.y[shown]
        classes = len(self.tasks[task].classes)
        chosen: np.ndarray = shown[choose_labelled(y, self.labels, seed, task=task, classes=classes)]
        return chosen

    def unlabelled(self, task: int, seed: int) -> Int[np.ndarray, " rest"]:
        """Training images that the seed is shown without their label, in rising order."""
        return np.setdiff1d(self._shown(task, seed), self.labelled(task, seed), assume_unique=True)

    def first_pass(self, task: int, seed: int) -> Int[np.ndarray, " labelled"]:
        """The labelled images in the order of a seed's first pass."""
        order = self.order(task, seed)
        return order[np.isin(order, self.labelled(task, seed))]

    def _shown(self, task: int, seed: int) -> Int[np.ndarray, " shown"]:
        total, shown = len(self.tasks[task].train), self.shown(task)
        return np.arange(total) if shown == total else np.sort(self.order(task, seed)[:shown])

    def describe(self) -> dict[str, object]:
        """What was made of the source, to be stored with a run."""
        numbers = range(len(self.tasks))
        few = {} if self.labels is None else {"unlabelled_images": [self.shown(t) - self.count(t) for t in numbers]}
        even = len(set(map(len, self.task_classes))) == 1 and len(set(chain(*self.task_classes))) in (
            self.width,
            self.width * len(self.tasks),
        )
        uneven = {} if even else {TASK_CLASSES: [list(own) for own in self.task_classes]}
        return {
            "shape": list(self.shape),
            "classes_per_task": self.width,
            "labelled_images": [self.count(task) for task in numbers],
            **few,
            **uneven,
            **({} if self.own_tasks is not None else {"test_images": [len(task.test) for task in self.tasks]}),
            "mean": list(self.scale.mean),
            "std": list(self.scale.std),
            **self.facts,
        }

    def test(self, task: int) -> Images:
        """The test set of a task that all seeds share, its pixels moved as in training."""
        return self.tasks[task].test.images(self.tasks[task].origin)
