"""The images of every step: labelled ones and others, each replica by walks of its own."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Int

from gradcast.core import Batch, Unlabelled
from gradcast.devices import to_device
from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator, torch_generator
from gradcast.semi.labels import others
from gradcast.streams.pool import Pool
from gradcast.streams.walk import Walk


class Supply:
    """Both kinds of images come from one ``pool``, which augments them; no image is of both kinds.

    ``labelled`` are the places of a replica's labelled images, a row each. The unlabelled batch has ``extra`` images
    (0: there is none), each in so many ``views`` of it.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("walks", "generators", "unlabelled_walks", "unlabelled_generators")

    def __init__(
        self,
        pool: Pool,
        y: Int[np.ndarray, " n"],
        labelled: Int[np.ndarray, "r l"],
        seeds: Sequence[int],
        *,
        batch: int,
        extra: int = 0,
        views: int = 1,
    ) -> None:
        self.pool, self.labelled, self.batch, self.extra, self.views = pool, labelled, batch, extra, views
        self.unlabelled = np.stack([others(len(y), own) for own in labelled])
        check_unlabelled(self.unlabelled.shape[1], extra)
        self.y = torch.from_numpy(np.asarray(y)).to(pool.device)
        self.used = torch.ones(len(seeds), dtype=torch.bool, device=pool.device)
        self.walks = [Walk(labelled.shape[1], numpy_generator(seed, "labelled")) for seed in seeds]
        self.generators = [torch_generator(seed, "labelled", "augment") for seed in seeds]
        self.unlabelled_walks = [Walk(self.unlabelled.shape[1], numpy_generator(seed, "unlabelled")) for seed in seeds]
        self.unlabelled_generators = [torch_generator(seed, "unlabelled", "augment") for seed in seeds]

    def next(self) -> tuple[Batch, Unlabelled | None]:
        """The images of the coming step."""
        index = _taken(self.labelled, self.walks, self.batch)
        batch = Batch(self.pool.images(index, self.generators), self.y[to_device(index, self.y.device)], 0)
        if not self.extra:
            return batch, None
        index = _taken(self.unlabelled, self.unlabelled_walks, self.extra)
        views = [self.pool.images(index, self.unlabelled_generators) for _ in range(self.views)]
        everybody = tuple(range(len(index)))
        truth = self.y[to_device(index, self.y.device)]
        return batch, Unlabelled(torch.cat(views, dim=1), self.used, self.views, everybody, truth)


def _taken(places: Int[np.ndarray, "r n"], walks: Sequence[Walk], size: int) -> Int[np.ndarray, "r size"]:
    return np.stack([own[walk.take(size)] for own, walk in zip(places, walks, strict=True)])


def check_unlabelled(unlabelled: int, batch: int) -> None:
    """Raise where so many images without a label do not fill a batch."""
    if batch and not unlabelled:
        raise GradcastError("every training image has a label and none is left without; lower semi.labels")
    if unlabelled < batch:
        raise GradcastError(
            f"{unlabelled} images have no label and a batch of them shall have {batch}; lower policy.batch or "
            "semi.labels"
        )
