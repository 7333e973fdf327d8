"""The AlexNet-like network of adversarial continual learning: its shared module, alone or with a classifier."""

from collections.abc import Sequence
from itertools import chain, pairwise

from jaxtyping import Float
from torch import Tensor, nn

from gradcast.errors import GradcastError

Shape = tuple[int, int, int]  # channels, height, width
CHANNELS = (64, 128, 256)  # of the convolutions
WIDTHS = (1024, 1024, 512, 128)  # of the linear layers
DROPOUT = (0.2, 0.2, 0.5)  # after them; after linear layers 0.5
SMALLEST = 12  # the side of the smallest image of which the third pooling leaves something


class AlexNetBody(nn.Module):
    """Three convolutions, four linear layers, each with ReLU and dropout; from images to ``latent`` numbers.

    The first kernel is an eighth of the image and the second a tenth, so the network knows its image ``shape``.
    ``AlexNetBody((3, 32, 32))`` is the published module for CIFAR (2,897,984 parameters) and
    ``AlexNetBody((3, 84, 84), 256, (512, 512, 512))`` the one for miniImageNet (7,754,688).
    """

    def __init__(
        self,
        shape: Shape,
        latent: int = 128,
        widths: Sequence[int] = (1024, 1024, 512),
        channels: Sequence[int] = CHANNELS,
    ) -> None:
        super().__init__()
        made = stages(shape, channels, (*widths, latent))
        self.convolutions, self.layers = (
            nn.Sequential(*chain.from_iterable((layer, *rest) for layer, rest in part))
            for part in (made[: len(CHANNELS)], made[len(CHANNELS) :])
        )

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b latent"]:
        found: Tensor = self.layers(self.convolutions(x).flatten(1))
        return found


class AlexNetLike(nn.Module):
    """``AlexNetBody`` and one linear layer after it."""

    def __init__(
        self,
        outputs: int,
        *,
        shape: Shape,
        latent: int = 128,
        widths: Sequence[int] = (1024, 1024, 512),
        channels: Sequence[int] = CHANNELS,
    ) -> None:
        super().__init__()
        self.body = AlexNetBody(shape, latent, widths, channels)
        self.linear = nn.Linear(latent, outputs)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b k"]:
        logits: Tensor = self.linear(self.body(x))
        return logits


Layer = nn.Conv2d | nn.Linear


def stages(shape: Shape, channels: Sequence[int], widths: Sequence[int]) -> list[tuple[Layer, nn.Sequential]]:
    """Every layer with weights, three convolutions and then linear ones, and what follows it."""
    inputs, height, width = shape
    if min(height, width) < SMALLEST:
        raise GradcastError(
            f"images of {height}x{width} are too small for AlexNetBody, whose convolutions and poolings need "
            f"{SMALLEST}x{SMALLEST} or more: enlarge the images, or choose another network"
        )
    kernels = [(height // 8, width // 8), (height // 10, width // 10), (2, 2)]
    made: list[tuple[Layer, nn.Sequential]] = []
    for before, after, kernel, rate in zip((inputs, *channels[:-1]), channels, kernels, DROPOUT, strict=True):
        layer, *rest = stage(before, after, kernel, rate)
        made.append((layer, nn.Sequential(*rest)))
    rows, columns = (left(side, [kernel[axis] for kernel in kernels]) for axis, side in enumerate((height, width)))
    for before, after in pairwise([channels[-1] * rows * columns, *widths]):
        made.append((nn.Linear(before, after), nn.Sequential(nn.ReLU(), nn.Dropout(0.5))))
    return made


def stage(
    inputs: int, outputs: int, kernel: tuple[int, int], dropout: float
) -> tuple[nn.Conv2d, nn.ReLU, nn.Dropout, nn.MaxPool2d]:
    """A convolution without padding, ReLU, dropout, and pooling by two."""
    return nn.Conv2d(inputs, outputs, kernel), nn.ReLU(), nn.Dropout(dropout), nn.MaxPool2d(2)


def left(side: int, kernels: Sequence[int]) -> int:
    """What unpadded convolutions, each with a pooling by two, leave of one side of an image."""
    for kernel in kernels:
        side = (side - kernel + 1) // 2
    return side
