"""From bytes to the numbers a network sees."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.data.images import Moments
from gradcast.errors import GradcastError
from gradcast.networks.staged import seen_through

# unit: divided by 255. standard: also shifted and scaled by each channel's mean and deviation over the training images.
# cifar, imagenet: by those that published code has for colour images of these names.
Normalise = Literal["unit", "standard", "cifar", "imagenet"]
REFERENCE = {1: ((0.5,), (0.5,)), 3: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}


CONSTANTS = {
    "cifar": ((125.3 / 255, 123.0 / 255, 113.9 / 255), (63.0 / 255, 62.1 / 255, 66.7 / 255)),
    "imagenet": REFERENCE[3],
}


@dataclass(frozen=True)
class Scale:
    """(v / 255 - mean) / std, channel by channel; empty: v / 255. Then through the network's frozen stages, if any."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    frozen: nn.Module | None = field(default=None, repr=False, compare=False)
    done: bool = field(default=False, repr=False, compare=False)  # values have been through all of it already

    def __call__(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Bytes (or values from 0 to 1) as the trained layers see them."""
        if self.done:
            return x.to(dtype)
        unit = x.to(dtype) / 255 if x.dtype == torch.uint8 else x.to(dtype)
        if self.mean:
            unit = (unit - _planes(self.mean, dtype, x.device)) / _planes(self.std, dtype, x.device)
        return unit if self.frozen is None else seen_through(self.frozen, unit)

    def undone(self, x: Float[Tensor, "*n c h w"]) -> Float[Tensor, "*n c h w"]:
        """Values from 0 to 1 again, of images as the network sees them."""
        if not self.mean:
            return x
        return x * _planes(self.std, x.dtype, x.device) + _planes(self.mean, x.dtype, x.device)


@cache
def _planes(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Float[Tensor, "c 1 1"]:
    """One number a channel, on the device once and not in every step."""
    return torch.tensor(values, dtype=dtype, device=device).view(-1, 1, 1)


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


def reference_scale(channels: int) -> Scale:
    """What the published code does to unlabelled images, and not to labelled ones."""
    return Scale(*REFERENCE[channels])
