"""Conv-Large, the 13-layer network of the semi-supervised experiments."""

from jaxtyping import Float
from torch import Tensor, nn

from gradcast.networks.normalisation import NormRelu
from gradcast.networks.staged import Staged


class ConvLarge(Staged):
    """Nine convolutions in three stages, mean over what is left, one linear layer; images of 12x12 or more.

    ``ConvLarge(10)`` has 3,121,802 parameters, ``ConvLarge(100)`` 3,133,412. The well-known version of the mean-teacher
    experiments differs: weight normalisation, noise on the images, and dropout of single numbers, not whole channels.
    """

    def __init__(self, outputs: int, *, channels: int = 3, dropout: float = 0.5) -> None:
        super().__init__()
        self.stage1 = nn.Sequential(*_layer(channels, 128), *_layer(128, 128), *_layer(128, 128))
        self.stage2 = nn.Sequential(*_layer(128, 256), *_layer(256, 256), *_layer(256, 256))
        self.stage3 = nn.Sequential(
            *_layer(256, 512, padding=0),  # 8x8 becomes 6x6
            *_layer(512, 256, kernel=1, padding=0),
            *_layer(256, 128, kernel=1, padding=0),
        )
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout2d(dropout)
        self.linear = nn.Linear(128, outputs)

    def stages(self) -> list[tuple[str, ...]]:
        """Three of three convolutions each."""
        return [("stage1", "pool", "dropout"), ("stage2", "pool", "dropout"), ("stage3",)]

    def forward(self, x: Float[Tensor, "b c h w"]) -> Tensor:
        x = self.run_stages(x)
        return x if self.last is not None else self.linear(x.mean((2, 3)))


def _layer(inputs: int, outputs: int, *, kernel: int = 3, padding: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, padding=padding, bias=False)
    return [convolution, NormRelu(outputs, leak=0.1)]
