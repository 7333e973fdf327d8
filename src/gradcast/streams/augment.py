"""Augmentations, vectorised: each is a function of images and of uniform random numbers, a row of them an image.

The numbers are drawn for each replica from its own generator; the arithmetic runs for all replicas at once, on the
device, and nothing in it makes the host wait.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import grid_sample, interpolate, pad

from gradcast.devices import to_device

Pictures = Float[Tensor, "n c h w"]  # values from 0 to 1
Uniforms = Float[Tensor, "n k"]


@dataclass(frozen=True)
class Augmentation:
    """A function and how many uniform numbers it takes an image."""

    name: str
    apply: Callable[[Tensor, Tensor], Tensor]
    numbers: int


def flip(x: Pictures, u: Uniforms) -> Pictures:
    """Mirrored left to right where u < 1/2."""
    return torch.where((u[:, 0] < 0.5).view(-1, 1, 1, 1), x.flip(-1), x)


def quarter_turns(x: Pictures, turns: Tensor) -> Pictures:
    """Each image turned counter-clockwise by its own number (0 to 3) of quarter turns."""
    turned = torch.stack([torch.rot90(x, k, (-2, -1)) for k in range(4)])
    return turned[turns, torch.arange(len(x), device=x.device)]


def rotate(x: Pictures, u: Uniforms) -> Pictures:
    """By 0, 90, 180 or 270 degrees, equally likely."""
    return quarter_turns(x, (4 * u[:, 0]).long())


def tilt(x: Pictures, u: Uniforms, *, degrees: float = 45.0) -> Pictures:
    """By any angle of up to ``degrees`` either way, around the middle; corners that come into view are black."""
    angle = (2 * u[:, 0] - 1) * math.radians(degrees)
    theta = x.new_zeros(len(x), 2, 3)
    theta[:, 0, 0] = theta[:, 1, 1] = angle.cos()
    theta[:, 1, 0] = angle.sin()
    theta[:, 0, 1] = -theta[:, 1, 0]
    grid = torch.nn.functional.affine_grid(theta, list(x.shape), align_corners=False)
    return grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def crop(x: Pictures, u: Uniforms, *, height: int, width: int) -> Float[Tensor, "n c h2 w2"]:
    """A window somewhere in the image, every place equally likely."""
    top, left = (u[:, 0] * (x.shape[-2] - height + 1)).long(), (u[:, 1] * (x.shape[-1] - width + 1)).long()
    rows = top.unsqueeze(1) + torch.arange(height, device=x.device)
    columns = left.unsqueeze(1) + torch.arange(width, device=x.device)
    picked = x.gather(2, rows[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))
    return picked.gather(3, columns[:, None, None, :].expand(-1, x.shape[1], height, -1))


def padded_crop(x: Pictures, u: Uniforms, *, padding: int) -> Pictures:
    """A window of the image's own size after a black border was added: a shift by up to ``padding`` pixels."""
    return crop(pad(x, [padding] * 4), u, height=x.shape[-2], width=x.shape[-1])


def shift(x: Pictures, u: Uniforms) -> Pictures:
    """The same by up to an eighth of the image's side, at least one pixel: for images of any size."""
    return padded_crop(x, u, padding=max(1, min(x.shape[-2:]) // 8))


def resize(x: Pictures, height: int, width: int) -> Float[Tensor, "n c h2 w2"]:
    """Bilinear, smoothed where images shrink, as Pillow does."""
    return interpolate(x, (height, width), mode="bilinear", antialias=True).clamp(0, 1)


def jitter(x: Pictures, u: Uniforms, *, brightness: float, contrast: float, saturation: float = 0.0) -> Pictures:
    """Brightness, then contrast, then saturation, each by a factor uniform in 1 ± its range."""
    ranges = (brightness, contrast, saturation)
    light, spread, colour = (1 + (2 * u[:, k] - 1).view(-1, 1, 1, 1) * ranges[k] for k in range(3))
    x = (x * light).clamp(0, 1)
    x = _blend(x, grey(x).mean((1, 2, 3), keepdim=True), spread)
    return _blend(x, grey(x), colour)


def some_jitter(x: Pictures, u: Uniforms, *, probability: float, strength: float) -> Pictures:
    """Brightness, contrast and saturation, of so many of the images only."""
    changed = jitter(x, u[:, 1:], brightness=strength, contrast=strength, saturation=strength)
    return torch.where((u[:, 0] < probability).view(-1, 1, 1, 1), changed, x)


def some_grey(x: Pictures, u: Uniforms, *, probability: float) -> Pictures:
    """Without colour, in as many channels, of so many of the images only."""
    return torch.where((u[:, 0] < probability).view(-1, 1, 1, 1), grey(x).expand_as(x), x)


def grey(x: Pictures) -> Float[Tensor, "n 1 h w"]:
    """One channel, by the usual weights."""
    if x.shape[1] == 1:
        return x
    red, green, blue = x.unbind(1)
    return (0.299 * red + 0.587 * green + 0.114 * blue).unsqueeze(1)


def resized_crop(x: Pictures, u: Uniforms, *, smallest: float = 0.2, ratio: float = 4 / 3) -> Pictures:
    """A window of random area (share of the image from ``smallest`` to 1) and proportions, scaled back to full size."""
    area = smallest + (1 - smallest) * u[:, 0]
    proportion = torch.exp((2 * u[:, 1] - 1) * math.log(ratio))
    width, height = (area * proportion).sqrt().clamp(max=1), (area / proportion).sqrt().clamp(max=1)
    left, top = (2 * u[:, 2] - 1) * (1 - width), (2 * u[:, 3] - 1) * (1 - height)
    theta = x.new_zeros(len(x), 2, 3)
    theta[:, 0, 0], theta[:, 0, 2], theta[:, 1, 1], theta[:, 1, 2] = width, left, height, top
    grid = torch.nn.functional.affine_grid(theta, list(x.shape), align_corners=False)
    return grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def cutout(x: Pictures, u: Uniforms, *, share: float = 0.5) -> Pictures:
    """A grey square, ``share`` of the shorter side long, around a random pixel; beyond the border it is cut off."""
    side = max(1, int(share * min(x.shape[-2:])))
    rows, columns = (_window(u[:, axis], x.shape[2 + axis], side) for axis in range(2))
    return torch.where((rows.unsqueeze(2) & columns.unsqueeze(1)).unsqueeze(1), 0.5, x)


def _window(u: Float[Tensor, " n"], length: int, side: int) -> Bool[Tensor, "n length"]:
    """``side`` places along an axis around a random one, as far as they exist."""
    places = torch.arange(length, device=u.device)
    first = (u * length).long().unsqueeze(1) - side // 2
    return (places >= first) & (places < first + side)


def _blend(x: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    return (other + factor * (x - other)).clamp(0, 1)


# What a specification may name for labelled images, pools and views.
AugmentationName = Literal[
    "crop", "shift", "flip", "rotate", "tilt", "jitter", "resized-crop", "colour-jitter", "greyscale", "cutout"
]
AUGMENTATIONS: dict[AugmentationName, Augmentation] = {
    "crop": Augmentation("crop", partial(padded_crop, padding=4), 2),
    "shift": Augmentation("shift", shift, 2),
    "flip": Augmentation("flip", flip, 1),
    "rotate": Augmentation("rotate", rotate, 1),
    "tilt": Augmentation("tilt", tilt, 1),
    "jitter": Augmentation("jitter", partial(jitter, brightness=0.4, contrast=0.4, saturation=0.4), 3),
    "resized-crop": Augmentation("resized-crop", resized_crop, 4),
    "colour-jitter": Augmentation("colour-jitter", partial(some_jitter, probability=0.8, strength=0.4), 4),
    "greyscale": Augmentation("greyscale", partial(some_grey, probability=0.2), 1),
    "cutout": Augmentation("cutout", cutout, 2),
}


def augment(
    x: Float[Tensor, "r n c h w"], steps: Sequence[Augmentation], generators: Sequence[torch.Generator]
) -> Float[Tensor, "r n c2 h2 w2"]:
    """Every step on every image; each replica draws from its own generator on the CPU, so grouping changes nothing."""

    def draw(count: int, numbers: int) -> Tensor:
        drawn = [torch.rand(count, numbers, generator=generator, dtype=x.dtype) for generator in generators]
        return to_device(torch.stack(drawn), x.device)

    return changed(x, steps, draw)


def changed(
    x: Float[Tensor, "r n c h w"], steps: Sequence[Augmentation], draw: Callable[[int, int], Tensor]
) -> Float[Tensor, "r n c2 h2 w2"]:
    """Every step on every image; ``draw`` gives each replica so many rows of so many uniform numbers."""
    replicas, count = x.shape[:2]
    flat = x.flatten(0, 1)
    for step in steps:
        flat = step.apply(flat, draw(count, step.numbers).flatten(0, 1))
    return flat.view(replicas, count, *flat.shape[1:])
