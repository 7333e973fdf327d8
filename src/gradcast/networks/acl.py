"""The network of adversarial continual learning: a shared and a private module side by side, and a head on both."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.networks.alexnet import CHANNELS, AlexNetBody, Shape, left, stage
from gradcast.networks.resnet import SlimResNet18

SMALLEST = 10  # the side of the smallest image of which the private module's second kernel sees a pixel


class Private(nn.Module):
    """Two convolutions and a linear layer: what only one task knows.

    ``Private((3, 32, 32), 128, 32)`` is the published module for CIFAR (158,400 parameters) and
    ``Private((3, 84, 84), 256, 16)`` the one for miniImageNet (943,072).
    """

    def __init__(self, shape: Shape, latent: int = 128, width: int = 32) -> None:
        super().__init__()
        self.channels, height, across = shape
        self.latent = latent
        if min(height, across) < SMALLEST:
            raise GradcastError(
                f"private modules of 'acl' need images of {SMALLEST} x {SMALLEST} pixels or more, not {height} x "
                f"{across}; set stream.size"
            )
        kernels = [(height // 8, across // 8), (height // 10, across // 10)]
        self.convolutions = nn.Sequential(
            *stage(self.channels, width, kernels[0], 0.2), *stage(width, width, kernels[1], 0.5)
        )
        rows, columns = (left(side, [kernel[axis] for kernel in kernels]) for axis, side in enumerate((height, across)))
        self.linear = nn.Linear(width * rows * columns, latent)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b latent"]:
        found: Tensor = self.linear(self.convolutions(x).flatten(1)).relu()
        return found


class PrivateLinear(nn.Module):
    """One linear layer: the private module of the published network for MNIST."""

    def __init__(self, shape: Shape, latent: int) -> None:
        super().__init__()
        self.channels, self.latent = shape[0], latent
        self.linear = nn.Linear(prod(shape), latent)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b latent"]:
        found: Tensor = self.linear(x.flatten(1)).relu()
        return found


class Head(nn.Module):
    """From private and shared features, in this order, to the logits of one task."""

    def __init__(self, latent: int, classes: int, units: int = 32) -> None:
        super().__init__()
        self.classes, self.tasks = classes, 1
        self.layers = nn.Sequential(
            nn.Linear(2 * latent, units),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(units, units // 2),
            nn.ReLU(),
            nn.Linear(units // 2, classes),
        )

    def forward(self, features: Float[Tensor, "b both"]) -> Float[Tensor, "b k"]:
        logits: Tensor = self.layers(features)
        return logits


class HeadPerTask(nn.Module):
    """Heads of all tasks side by side: the logits of task t are the columns from ``t * classes`` on."""

    def __init__(self, heads: Sequence[Head]) -> None:
        super().__init__()
        self.classes, self.tasks = heads[0].classes, len(heads)
        self.each = nn.ModuleList(heads)

    def forward(self, features: Float[Tensor, "b both"]) -> Float[Tensor, "b columns"]:
        return torch.cat([head(features) for head in self.each], dim=1)


class AclNetwork(nn.Module):
    """Logits, shared features and private features of an image, in one row.

    ``shared`` is any network from images to as many numbers as the private module gives. Images with twice the
    channels are two images: the shared module sees the first, the private module the second.
    """

    def __init__(self, shared: nn.Module, private: Private | PrivateLinear, head: Head | HeadPerTask) -> None:
        super().__init__()
        self.shared, self.private, self.head = shared, private, head
        self.latent, self.classes, self.tasks = private.latent, head.classes, head.tasks

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b columns"]:
        channels = self.private.channels
        zs, zp = self.shared(x[:, :channels]), self.private(x[:, -channels:])
        logits = self.head(torch.cat([zp, zs], dim=1))
        return torch.cat([logits, zs, zp], dim=1)


def acl_network(
    shape: Shape,
    classes: int,
    *,
    latent: int = 128,
    widths: Sequence[int] = (1024, 1024, 512),
    channels: Sequence[int] = CHANNELS,
    private_width: int = 32,
    head_units: int = 32,
) -> AclNetwork:
    """The published network; the defaults are those for CIFAR."""
    shared = AlexNetBody(shape, latent, widths, channels)
    return AclNetwork(shared, Private(shape, latent, private_width), Head(latent, classes, head_units))


def linear_acl_network(
    shape: Shape, classes: int, *, latent: int, widths: Sequence[int], head_units: int = 28
) -> AclNetwork:
    """The published network for MNIST: linear layers with ReLU and dropout, and one for each task beside them."""
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise([prod(shape), *widths, latent]):
        layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(0.2)]
    return AclNetwork(nn.Sequential(*layers), PrivateLinear(shape, latent), Head(latent, classes, head_units))


def residual_acl_network(
    shape: Shape, classes: int, *, width: int = 20, private_width: int = 32, head_units: int = 32
) -> AclNetwork:
    """The same with the slim ResNet-18 as shared module: what its linear layer would see are the shared features."""
    shared, latent = SlimResNet18(width, None, channels=shape[0]), 8 * width
    return AclNetwork(shared, Private(shape, latent, private_width), Head(latent, classes, head_units))
