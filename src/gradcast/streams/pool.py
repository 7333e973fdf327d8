"""The pool: unlabelled images as the model sees them, by one of the published transforms or plainly."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gradcast.data.images import Shape
from gradcast.data.stored_images import RESIDENT, StoredImages
from gradcast.devices import Place, to_device
from gradcast.randomness import numpy_generator
from gradcast.streams.augment import (
    Augmentation,
    augment,
    crop,
    flip,
    grey,
    jitter,
    resize,
)
from gradcast.streams.scale import Scale

# plain: brought to the stream's shape, nothing random. The others are the published ones, by the names of the
# published code.
TransformName = Literal["plain", "tiny4mnist", "tiny", "coco", "coco-acl", "cub", "car", "aircraft"]


@dataclass(frozen=True)
class Transform:
    """How images are decoded (size, None: the stream's; squash: ignore proportions) and what happens at each draw."""

    decoded: int | None = None
    squash: bool = False
    crop: int | None = None
    steps: tuple[Augmentation, ...] = ()

    def shape(self, stream: Shape) -> Shape:
        """Shape of the decoded images; those that are cropped stay in colour until then."""
        return stream if self.decoded is None else (3, self.decoded, self.decoded)

    def pipeline(self, stream: Shape) -> tuple[Augmentation, ...]:
        """All that happens at a draw, for a stream of this shape."""
        if self.crop is None:
            return self.steps
        window = Augmentation("window", partial(_window, size=self.crop, stream=stream), 2)
        return (window, *self.steps)


def _window(x: Tensor, u: Tensor, *, size: int, stream: Shape) -> Tensor:
    small = resize(crop(x, u, height=size, width=size), stream[1], stream[2])
    return grey(small) if stream[0] == 1 else small


FLIP = Augmentation("flip", flip, 1)
LIGHT = Augmentation("light", partial(jitter, brightness=0.2, contrast=0.2), 3)
TRANSFORMS: dict[TransformName, Transform] = {
    "plain": Transform(),
    "tiny4mnist": Transform(decoded=64, crop=60),
    "tiny": Transform(decoded=64, crop=60, steps=(FLIP,)),
    "coco": Transform(squash=True, steps=(FLIP,)),
    "coco-acl": Transform(decoded=256, crop=224, steps=(FLIP,)),
    "cub": Transform(squash=True, steps=(FLIP, LIGHT)),
    "car": Transform(squash=True, steps=(FLIP, LIGHT)),
    "aircraft": Transform(squash=True, steps=(FLIP, LIGHT)),
}


class Pool:
    """Unlabelled images, as bytes until they are asked for; the same for all tasks and seeds.

    Few lie on the device. Of many only those that are drawn are brought there.
    """

    by_task = False

    def __init__(self, images: StoredImages, scale: Scale, steps: Sequence[Augmentation] = (), *, place: Place) -> None:
        self.stored, self.x = images, None
        if images.size <= RESIDENT and (place.device.type != "cpu" or images.enlarge is not None):
            self.x = torch.from_numpy(images.take(np.arange(len(images)))).to(place.device)
        self.scale, self.steps = scale, tuple(steps)
        self.device, self.dtype = place.device, place.dtype

    def behind(self, frozen: nn.Module) -> "Pool":
        """The same images as a network sees them behind its frozen stages."""
        found = copy(self)
        found.scale = replace(self.scale, frozen=frozen)
        return found

    @property
    def content(self) -> str:
        """A digest of the images."""
        return self.stored.content

    def __len__(self) -> int:
        return len(self.stored)

    def size(self, task: int) -> int:
        """Images to walk through."""
        return len(self)

    def images(
        self,
        task: int,
        seeds: Sequence[int],
        index: Int[np.ndarray, "r u"],
        generators: Sequence[torch.Generator] = (),
        steps: Sequence[Augmentation] = (),
    ) -> tuple[Float[Tensor, "r u *shape"], None]:
        """These images as the model sees them, after further ``steps``; a row of indices and a generator a replica.

        What they show is not known.
        """
        if self.x is None:
            drawn = to_device(self.stored.take(index), self.device)
        else:
            drawn = self.x[to_device(index, self.device)]
        chosen, steps = drawn.to(self.dtype), (*self.steps, *steps)
        if drawn.dtype == torch.uint8:
            chosen = chosen / 255
        return self.scale(augment(chosen, steps, generators) if steps else chosen, self.dtype), None


def subset(images: StoredImages, ratio: float, data_seed: int) -> StoredImages:
    """A fixed random share of the pool, the rest never drawn."""
    if ratio == 1:
        return images
    kept = numpy_generator(data_seed, "pool subset").permutation(len(images))[: share_of(len(images), ratio)]
    return images.only(np.sort(kept))


def share_of(images: int, ratio: float) -> int:
    """How many images a share of a pool has."""
    return max(round(ratio * images), 1)
