"""Tasks of R seeds, each with its own class order: images to train, to validate and to test on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from gradcast.core import Batch
from gradcast.data.images import Images, Source
from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator
from gradcast.streams.scale import Scale

NOBODY = -1  # the label of a place without an image, where a replica has fewer than another


@dataclass(frozen=True)
class Part:
    """Images of one task, by their place in the source, and their labels inside the task; one row a replica."""

    x: UInt8[Tensor, "n c h w"] | Float[Tensor, "n c h w"]  # of the source, on the device
    index: Int[Tensor, "r m"]
    y: Int[Tensor, "r m"]
    task: int
    tasks: Int[Tensor, "r m"] | None = None  # the task of every image, where some are of earlier tasks

    @property
    def counts(self) -> Int[Tensor, " r"]:
        """How many images each replica has."""
        return (self.y != NOBODY).sum(1)

    def ordered(self, order: Int[np.ndarray, "r m"]) -> "Part":
        """The same in another order."""
        moved = torch.from_numpy(order).to(self.y.device)
        tasks = None if self.tasks is None else self.tasks.gather(1, moved)
        return Part(self.x, self.index.gather(1, moved), self.y.gather(1, moved), self.task, tasks)

    def cut(self, where: slice) -> "Part":
        """Some of them."""
        tasks = None if self.tasks is None else self.tasks[:, where]
        return Part(self.x, self.index[:, where], self.y[:, where], self.task, tasks)


class Lessons:
    """Classes in the order of ``numpy.random.RandomState(seed).permutation``, cut into tasks of ``width``.

    All images lie on the device once, as bytes. Every class gives as many training images as the smallest has, so that
    replicas of different class orders have equally long tasks; ``validation`` is the share of them that is set aside.
    """

    def __init__(
        self,
        source: Source,
        seeds: Sequence[int],
        *,
        tasks: int,
        width: int,
        validation: float,
        scale: Scale,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        classes = len(source.classes)
        self.each, self.held = portions(source, tasks, width, validation)  # training images a class, set aside a task
        self.seeds, self.tasks, self.width, self.scale, self.dtype = list(seeds), tasks, width, scale, dtype
        self.orders = np.stack([class_order(seed, classes)[: tasks * width].reshape(tasks, width) for seed in seeds])
        self.places = [_places(images, classes) for images in (source.train, source.test)]
        self.x = [torch.from_numpy(np.array(images.x)).to(device) for images in (source.train, source.test)]
        self._made: dict[int, tuple[Part, Part]] = {}

    @property
    def count(self) -> int:
        """Training images of every task."""
        return self.each * self.width - self.held

    def train(self, task: int) -> Part:
        """Images to train on."""
        return self._split(task)[0]

    def validation(self, task: int) -> Part:
        """Images that were set aside."""
        return self._split(task)[1]

    def test(self, task: int) -> Part:
        """Test images, all that the classes have."""
        return self._part(self.x[1], [self._of(task, row, 1, None) for row in range(len(self.seeds))], task)

    def epoch(self, task: int, epoch: int, size: int) -> Iterator[Batch]:
        """The task's training batches in this epoch's order; the last may be short."""
        return self.batches(self.shuffled(task, epoch), size, again=epoch > 0)

    def shuffled(self, task: int, epoch: int) -> Part:
        """The task's training images in this epoch's order."""
        orders = [numpy_generator(seed, "epochs", task, epoch).permutation(self.count) for seed in self.seeds]
        return self.train(task).ordered(np.stack(orders))

    def length(self, size: int) -> int:
        """Batches an epoch."""
        return -(-self.count // size)

    def batches(self, part: Part, size: int, *, again: bool = False) -> Iterator[Batch]:
        """The images of a part as the model sees them."""
        return (self.batch(part, number, size, again=again) for number in range(-(-part.y.shape[1] // size)))

    def batch(self, part: Part, number: int, size: int, *, again: bool = False) -> Batch:
        """One of them."""
        own = part.cut(slice(number * size, (number + 1) * size))
        return Batch(self.scale(own.x[own.index], self.dtype), own.y, own.task, again, own.tasks)

    def folded(self, part: Part, size: int, together: int) -> Iterator[tuple[Batch, int]]:
        """The same batches, up to so many whole ones in one, and how many those are; a short one comes alone."""
        whole = part.y.shape[1] // size * size
        for start, end in ((0, whole), (whole, part.y.shape[1])):
            for batch in self.batches(part.cut(slice(start, end)), together * size):
                yield batch, max(batch.y.shape[1] // size, 1)

    def _split(self, task: int) -> tuple[Part, Part]:
        """Asked for in every epoch, made once."""
        if task not in self._made:
            self._made[task] = self._cut(task)
        return self._made[task]

    def _cut(self, task: int) -> tuple[Part, Part]:
        kept: list[tuple[np.ndarray, np.ndarray]] = []
        aside: list[tuple[np.ndarray, np.ndarray]] = []
        for row, seed in enumerate(self.seeds):
            index, y = self._of(task, row, 0, self.each)
            order = numpy_generator(seed, "validation", task).permutation(len(index))
            aside.append((index[order[: self.held]], y[order[: self.held]]))
            kept.append((index[order[self.held :]], y[order[self.held :]]))
        return self._part(self.x[0], kept, task), self._part(self.x[0], aside, task)

    def _of(self, task: int, row: int, part: int, most: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Places and labels of a replica's images."""
        found = [self.places[part][label][:most] for label in self.orders[row, task]]
        return np.concatenate(found), np.repeat(np.arange(self.width), [len(each) for each in found])

    def _part(self, x: Tensor, rows: Sequence[tuple[np.ndarray, np.ndarray]], task: int) -> Part:
        longest = max(len(index) for index, _ in rows)
        index = np.stack([np.pad(index, (0, longest - len(index))) for index, _ in rows])
        y = np.stack([np.pad(y, (0, longest - len(y)), constant_values=NOBODY) for _, y in rows])
        return Part(x, torch.from_numpy(index).to(x.device), torch.from_numpy(y).to(x.device), task)


def portions(source: Source, tasks: int, width: int, validation: float) -> tuple[int, int]:
    """Training images of every class, and those of every task that are set aside for validation."""
    classes = len(source.classes)
    if tasks * width > classes or width < 1:
        raise GradcastError(
            f"{tasks} tasks of {max(width, 1)} classes need {tasks * max(width, 1)} classes and {source.name} has "
            f"{classes}; lower the number of tasks or of classes in each"
        )
    each = min(len(places) for places in _places(source.train, classes))
    held = int(validation * each * width)
    if not 0 < held < each * width:
        raise GradcastError(
            f"a share of {validation} of {each * width} images for validation leaves {held} to validate "
            f"and {each * width - held} to train on; both need one or more"
        )
    return each, held


def class_order(seed: int, classes: int) -> Int[np.ndarray, " classes"]:
    """The published one for this seed."""
    order: np.ndarray = np.random.RandomState(seed).permutation(classes)
    return order


def _places(images: Images, classes: int) -> list[Int[np.ndarray, " some"]]:
    """Where the images of each class lie."""
    found = [np.flatnonzero(images.y == label) for label in range(classes)]
    empty = [label for label, places in enumerate(found) if not len(places)]
    if empty:
        raise GradcastError(f"class {empty[0]} has no training or no test images; leave it out of the source")
    return found
