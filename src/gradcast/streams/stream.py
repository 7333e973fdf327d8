"""A stream: tasks in order, each with labelled samples for every replica and a test set that all replicas share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Int

from gradcast.core import Batch
from gradcast.data.images import Images, Shape, move_pixels
from gradcast.randomness import numpy_generator, torch_generator
from gradcast.streams.augment import Augmentation, augment
from gradcast.streams.scale import Scale


@dataclass(frozen=True)
class Task:
    """Images to train and to test on, and where each pixel comes from (None: stays where it is)."""

    train: Images
    test: Images
    origin: Int[np.ndarray, " pixels"] | None


@dataclass(frozen=True)
class Stream:
    """All tasks; ``facts`` holds what was drawn to make them (angles, permutations, class order), stored with a run."""

    tasks: Sequence[Task]
    shape: Shape
    width: int  # classes a task
    facts: Mapping[str, np.ndarray]
    content: str = ""  # a digest of the images and labels it was made of
    samples: int | None = None  # labelled images a task; None: all it has
    ratio: float = 1.0  # share of those that keep their label; the others are not seen at all
    scale: Scale = field(default_factory=Scale)
    steps: tuple[Augmentation, ...] = ()  # augmentations of labelled training images

    def count(self, task: int) -> int:
        """Labelled samples of the task that one replica sees."""
        return max(round(self.ratio * (self.samples or len(self.tasks[task].train))), 1)

    def order(self, task: int, seed: int) -> Int[np.ndarray, " images"]:
        """All training images of the task as a replica draws them; those beyond its count are held out."""
        return numpy_generator(seed, "samples", task).permutation(len(self.tasks[task].train))

    def length(self, batch: int, epochs: int) -> int:
        """Training steps of the whole stream."""
        return epochs * sum(-(-self.count(task) // batch) for task in range(len(self.tasks)))

    def describe(self) -> dict[str, object]:
        """What was made of the source, to be stored with a run."""
        return {
            "shape": list(self.shape),
            "classes_per_task": self.width,
            "labelled_images": [self.count(task) for task in range(len(self.tasks))],
            "test_images": [len(task.test) for task in self.tasks],
            "mean": list(self.scale.mean),
            "std": list(self.scale.std),
            **self.facts,
        }

    def batches(
        self, task: int, seeds: Sequence[int], *, batch: int, epochs: int, device: torch.device, dtype: torch.dtype
    ) -> Iterator[Batch]:
        """The task's labelled batches: each replica draws its own samples in its own order; none crosses tasks.

        The last batch of an epoch may be short. Every further epoch is shuffled anew.
        """
        count, train = self.count(task), self.tasks[task].train
        drawn = [self.order(task, seed)[:count] for seed in seeds]
        moved = [move_pixels(train.x[own], self.tasks[task].origin) for own in drawn]
        x = torch.from_numpy(np.stack(moved)).to(device)
        y = torch.from_numpy(np.stack([train.y[own] for own in drawn])).to(device)
        shuffles = [numpy_generator(seed, "epochs", task) for seed in seeds]
        generators = [torch_generator(seed, "augment", task) for seed in seeds]
        for epoch in range(epochs):
            if epoch:
                order = torch.from_numpy(np.stack([shuffle.permutation(count) for shuffle in shuffles])).to(device)
                replica = torch.arange(len(seeds), device=device).unsqueeze(1)
                x, y = x[replica, order], y[replica, order]
            for start in range(0, count, batch):
                images = x[:, start : start + batch]
                if self.steps:
                    images = augment(images.to(dtype) / 255, self.steps, generators)
                yield Batch(self.scale(images, dtype), y[:, start : start + batch], task)

    def test(self, task: int) -> Images:
        """The task's test set, its pixels moved as in training."""
        own = self.tasks[task]
        return Images(move_pixels(own.test.x, own.origin), own.test.y)
