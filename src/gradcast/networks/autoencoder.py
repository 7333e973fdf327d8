"""Encoder and decoder of a variational autoencoder, for images or feature vectors."""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import nn

LEAK = 0.1  # of leaky ReLU


def shapes(shape: Sequence[int], widths: Sequence[int]) -> list[tuple[int, ...]]:
    """Of what each layer of an encoder sees: every one halves the sides of an image and has its own width."""
    found = [tuple(shape)]
    for width in widths:
        found.append((width, *(side // 2 for side in found[-1][1:])))
    return found


def encoder(shape: Sequence[int], widths: Sequence[int], latent: int) -> nn.Sequential:
    """From inputs to mean and log variance of so many latent numbers, side by side.

    Convolutions of 4x4 with stride 2 for images, linear layers for vectors; no BatchNorm, so a batch may be small.
    """
    on_the_way, layers = shapes(shape, widths), list[nn.Module]()
    for (inputs, *sides), (outputs, *_) in pairwise(on_the_way):
        layers.append(nn.Conv2d(inputs, outputs, 4, 2, padding=1) if sides else nn.Linear(inputs, outputs))
        layers.append(nn.LeakyReLU(LEAK))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(math.prod(on_the_way[-1]), 2 * latent))


def decoder(shape: Sequence[int], widths: Sequence[int], latent: int) -> nn.Sequential:
    """The way back, from latent numbers to inputs of any size."""
    on_the_way = shapes(shape, widths)[::-1]
    layers: list[nn.Module] = [nn.Linear(latent, math.prod(on_the_way[0])), nn.Unflatten(1, on_the_way[0])]
    for (inputs, *_), (outputs, *sides) in pairwise(on_the_way):
        layers += [nn.LeakyReLU(LEAK), _doubling(inputs, outputs, sides) if sides else nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


def _doubling(inputs: int, outputs: int, sides: Sequence[int]) -> nn.Module:
    """Half of these sides, rounded down, becomes the whole."""
    height, width = sides
    return nn.ConvTranspose2d(inputs, outputs, 4, 2, padding=1, output_padding=(height % 2, width % 2))
