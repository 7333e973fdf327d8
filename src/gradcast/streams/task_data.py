"""The tasks of several seeds on the device: images to train, to validate and to test on, one row a replica."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from gradcast.core import Batch
from gradcast.data.images import move_pixels
from gradcast.devices import Place, to_device
from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator
from gradcast.replicas.heads import Heads
from gradcast.streams.augment import augment
from gradcast.streams.stream import Stream, Subset

NO_IMAGE = -1  # the label of a place without an image, where a replica has fewer than another


@dataclass(frozen=True)
class Portion:
    """Images of one task for every replica: where they lie in ``x``, and their labels."""

    x: UInt8[Tensor, "n c h w"] | Float[Tensor, "n *seen"]
    index: Int[Tensor, "r m"]
    y: Int[Tensor, "r m"]
    task: int
    tasks: Int[Tensor, "r m"] | None = None  # the task of every image, where some are of earlier tasks

    @property
    def counts(self) -> Int[Tensor, " r"]:
        """How many images each replica has."""
        return (self.y != NO_IMAGE).sum(1)

    def ordered(self, order: Int[np.ndarray, "r k"]) -> "Portion":
        """These of its images, in this order."""
        moved = to_device(order, self.y.device)  # asked for in every step of a walk: the device is not waited for
        tasks = None if self.tasks is None else self.tasks.gather(1, moved)
        return replace(self, index=self.index.gather(1, moved), y=self.y.gather(1, moved), tasks=tasks)

    def within(self, task: int) -> "Portion":
        """The same images in a step of another task."""
        if task == self.task:
            return self
        return replace(self, task=task, tasks=torch.full_like(self.y, self.task))

    def cut(self, start: int, end: int) -> "Portion":
        """Images from one place to another."""
        tasks = None if self.tasks is None else self.tasks[:, start:end]
        return replace(self, index=self.index[:, start:end], y=self.y[:, start:end], tasks=tasks)


class TaskData:
    """Every task of a stream for these seeds; ``validation`` is the share of labelled images that is set aside.

    Without such a share, ``aside`` images of every class are: the same share would leave classes without one.
    Labels of images to train on are what a loss of these ``heads`` asks for (None: places among a task's classes).
    Labels of test images are places among a task's classes.
    """

    def __init__(
        self,
        stream: Stream,
        seeds: Sequence[int],
        place: Place,
        *,
        validation: float = 0.0,
        aside: int = 0,
        heads: Heads | None = None,
    ) -> None:
        self.stream, self.seeds, self.place, self.validation_share = stream, list(seeds), place, validation
        self.heads, self.aside = heads, 0 if validation else aside
        self.tasks = len(stream.tasks)
        for task in range(self.tasks) if validation or aside else ():
            self._check(task)
        self._made: dict[int, tuple[Portion, Portion]] = {}

    def describe(self) -> dict[str, object]:
        """What was made of the source, to be stored with a run."""
        found, tasks = self.stream.describe(), range(self.tasks)
        if not self.held(0):
            return found
        return found | {
            "labelled_images": [self.count(task) for task in tasks],
            "validation_images": self.held(0)
            if len({self.held(t) for t in tasks}) == 1
            else [self.held(t) for t in tasks],
        }

    def held(self, task: int) -> int:
        """Labelled images of the task that are set aside."""
        if self.aside:
            return self.aside * len(self.stream.task_classes[task])
        return int(self.validation_share * self.stream.count(task))

    def count(self, task: int) -> int:
        """Labelled images of the task to train on."""
        return self.stream.count(task) - self.held(task)

    def length(self, task: int, size: int) -> int:
        """Batches of one pass through the task; the last may be short."""
        return -(-self.count(task) // size)

    def train(self, task: int) -> Portion:
        """Labelled images to train on, in rising order where none is set aside."""
        return self._split(task)[0]

    def validation(self, task: int) -> Portion:
        """Labelled images that were set aside."""
        return self._split(task)[1]

    def test(self, task: int) -> Portion:
        """Test images of every seed's own tasks."""
        owned = [self.stream.task(task, seed) for seed in self.seeds]
        return self._portion(task, [own.test for own in owned], [np.arange(len(own.test)) for own in owned])

    def first_pass(self, task: int) -> Portion:
        """Images to train on in the order of a first pass."""
        train = self.train(task)
        rows = []
        for seed in self.seeds:
            order, shown = self.stream.first_pass(task, seed), self.stream.labelled(task, seed)
            if self.aside:
                shown = shown[self._aside(task, seed)[1]]
                order = order[np.isin(order, shown)]
            rows.append(np.searchsorted(shown, order))
        return train.ordered(np.stack(rows))

    def epoch(self, task: int, epoch: int) -> Portion:
        """Images to train on in this epoch's order, which depends on nothing but seed, task and epoch."""
        orders = [numpy_generator(seed, "epochs", task, epoch).permutation(self.count(task)) for seed in self.seeds]
        return self.train(task).ordered(np.stack(orders))

    def batch(self, portion: Portion, generators: Sequence[torch.Generator] = (), *, repeated: int = 0) -> Batch:
        """A portion as the model sees it; augmented where there are generators for that."""
        images, dtype = portion.x[portion.index], self.place.dtype
        if self.stream.steps and generators:
            images = augment(images.to(dtype) / 255, self.stream.steps, generators)
        return Batch(self.stream.scale(images, dtype), portion.y, portion.task, repeated, portion.tasks)

    def batches(self, portion: Portion, size: int) -> Iterator[Batch]:
        """A portion in batches, as it is."""
        total = portion.y.shape[1]
        return (self.batch(portion.cut(start, min(start + size, total))) for start in range(0, total, size))

    def folded(self, portion: Portion, size: int, together: int) -> Iterator[tuple[Batch, int]]:
        """The same batches, up to ``together`` whole ones in one, and how many those are; a short one comes alone."""
        total = portion.y.shape[1]
        whole = total // size * size
        for start, end in ((0, whole), (whole, total)):
            for batch in self.batches(portion.cut(start, end), together * size):
                yield batch, max(batch.y.shape[1] // size, 1)

    def _check(self, task: int) -> None:
        held, count = self.held(task), self.stream.count(task)
        if 0 < held < count:
            return
        if self.aside:
            raise GradcastError(
                f"learner.memory sets {held} of the {count} labelled images of task {task} aside, which leaves none to "
                "train on: lower it, or raise stream.samples or stream.labels"
            )
        raise GradcastError(
            f"a share of {self.validation_share} of the {count} labelled images of task {task} leaves {held} to "
            f"validate and {count - held} to train on; both need one or more: change schedule.validation"
        )

    def _split(self, task: int) -> tuple[Portion, Portion]:
        """Made once; tasks whose pixels were moved have images of their own, of which only the latest are kept."""
        if task not in self._made:
            if self.stream.tasks[task].origin is not None:
                self._made.clear()
            self._made[task] = self._cut(task)
        return self._made[task]

    def _cut(self, task: int) -> tuple[Portion, Portion]:
        subsets, chosen, held = [], [], self.held(task)
        for seed in self.seeds:
            own = self.stream.labelled(task, seed)
            if self.aside:
                own = own[np.concatenate(self._aside(task, seed))]
            elif held:
                own = own[numpy_generator(seed, "validation", task).permutation(len(own))]
            subsets.append(self.stream.task(task, seed).train)
            chosen.append(own)
        whole = self._portion(task, subsets, chosen)
        if self.heads is not None:
            whole = replace(whole, y=self.heads.labels(whole.y, task))
        return whole.cut(held, whole.y.shape[1]), whole.cut(0, held)

    def _aside(self, task: int, seed: int) -> tuple[Int[np.ndarray, " held"], Int[np.ndarray, " rest"]]:
        """Places of labelled images that are set aside, class by class in turn, and of the others in rising order."""
        own = self.stream.labelled(task, seed)
        order = numpy_generator(seed, "validation", task).permutation(len(own))
        y = self.stream.task(task, seed).train.y[own[order]]
        turn = (y[:, None] == np.arange(len(self.stream.task_classes[task]))).cumsum(0)[np.arange(len(y)), y]
        held = order[np.argsort(turn, kind="stable")][: self.held(task)]
        return held, np.setdiff1d(np.arange(len(own)), held)

    def _portion(self, task: int, subsets: Sequence[Subset], chosen: Sequence[np.ndarray]) -> Portion:
        """These images of each seed's own subset; an image that several seeds have lies on the device once."""
        longest = max(map(len, chosen))
        places = np.stack([_padded(s.places[own], longest, 0) for s, own in zip(subsets, chosen, strict=True)])
        y = np.stack([_padded(s.y[own], longest, NO_IMAGE) for s, own in zip(subsets, chosen, strict=True)])
        unique, index = np.unique(places, return_inverse=True)
        x = move_pixels(subsets[0].source[unique], self.stream.tasks[task].origin)
        pixels, rows, labels = (
            torch.from_numpy(array).to(self.place.device) for array in (x, index.reshape(places.shape), y)
        )
        return Portion(pixels, rows, labels, task)


def _padded(values: np.ndarray, length: int, fill: int) -> np.ndarray:
    return np.pad(values, (0, length - len(values)), constant_values=fill)
