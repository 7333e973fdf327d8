"""From bytes to the numbers a network sees."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.data.images import Moments, Vectors
from gradcast.data.vectors import mean_and_deviation
from gradcast.errors import GradcastError
from gradcast.networks.staged import seen_through

# unit: divided by 255; feature vectors stay as they are. standard: also shifted and scaled by the mean and deviation of
# each channel, or of each number of a vector, over the training images.
# cifar, imagenet: by those that published code has for colour images of these names.
Normalise = Literal["unit", "standard", "cifar", "imagenet"]
REFERENCE = {1: ((0.5,), (0.5,)), 3: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}


CONSTANTS = {
    "cifar": ((125.3 / 255, 123.0 / 255, 113.9 / 255), (63.0 / 255, 62.1 / 255, 66.7 / 255)),
    "imagenet": REFERENCE[3],
}


@dataclass(frozen=True)
class Scale:
    """(v / 255 - mean) / std, channel by channel; empty: v / 255. Feature vectors are not divided by 255.

    Then through the network's frozen stages, if it has any.
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    vector: bool = field(default=False, repr=False)  # one mean and deviation a number, no channels
    frozen: nn.Module | None = field(default=None, repr=False, compare=False)
    done: bool = field(default=False, repr=False, compare=False)  # values have been through all of it already

    def __call__(self, x: Tensor, dtype: torch.dtype) -> Float[Tensor, "*any"]:
        """Bytes (or values from 0 to 1, or feature vectors) as the trained layers see them."""
        if self.done:
            return x.to(dtype)
        unit = x.to(dtype).div_(255) if x.dtype == torch.uint8 else x.to(dtype)
        if self.mean:
            mean, std = (_planes(values, self.vector, dtype, x.device) for values in (self.mean, self.std))
            unit = (unit - mean) / std
        return unit if self.frozen is None else seen_through(self.frozen, unit, axes=1 if self.vector else 3)

    def difference(self, size: float, like: Float[Tensor, "*any"]) -> float | Tensor:
        """A difference between values from 0 to 1, as the network sees it: something that multiplies ``like``."""
        return size / _planes(self.std, self.vector, like.dtype, like.device) if self.mean else size

    def seen(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what the trained layers see of an image of this shape."""
        if self.frozen is None:
            return tuple(shape)
        blank = next(self.frozen.parameters(), torch.empty(0)).new_zeros(1, *shape)
        return tuple(seen_through(self.frozen, blank, axes=len(shape)).shape[1:])

    def undone(self, x: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        """Values from 0 to 1 again, of images as the network sees them."""
        if not self.mean:
            return x
        mean, std = (_planes(values, self.vector, x.dtype, x.device) for values in (self.mean, self.std))
        return x * std + mean


@cache
def _planes(values: tuple[float, ...], vector: bool, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "*any"]:
    """One number a channel, or one a number of a vector, on the device once and not in every step."""
    found = torch.tensor(values, dtype=dtype, device=device)
    return found if vector else found.view(-1, 1, 1)


def scale_for(normalise: Normalise, channels: int, moments: Callable[[], Moments] | None = None) -> Scale:
    """The scale of a stream, from its training images where their moments count."""
    if normalise == "unit":
        return Scale()
    if normalise in CONSTANTS:
        if channels != 3:
            raise GradcastError(f"stream.normalise = {normalise!r} is for colour images; set it to 'standard'")
        return Scale(*CONSTANTS[normalise])
    assert moments is not None, "needs the images' moments"
    found = moments()
    total, squares = (np.array(sums, dtype=np.int64) for sums in (found.total, found.squares))
    mean = total / found.count
    std = np.sqrt(np.maximum(squares / found.count - mean**2, 0))
    return Scale(tuple((mean / 255).tolist()), tuple(np.maximum(std / 255, 1e-6).tolist()))


def vector_scale(normalise: Normalise, parts: Sequence[Vectors]) -> Scale:
    """The scale of a stream of feature vectors, from those to train on: as they are, or standard."""
    if normalise == "unit":
        return Scale(vector=True)
    if normalise != "standard":
        raise GradcastError(
            f"stream.normalise = {normalise!r} is for colour images, and these are feature vectors; set it to "
            "'standard', or to 'unit' to leave them as they are"
        )
    mean, std = mean_and_deviation(parts)
    return Scale(tuple(mean.tolist()), tuple(std.tolist()), vector=True)


def reference_scale(channels: int) -> Scale:
    """What the published code does to unlabelled images, and not to labelled ones."""
    return Scale(*REFERENCE[channels])
