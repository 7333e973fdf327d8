"""The slim ResNet-18 of the image experiments: a fraction of the usual width, for small images."""

from jaxtyping import Float
from torch import Tensor, nn

from gradcast.networks.normalisation import NormRelu
from gradcast.networks.staged import Staged


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with BatchNorm, and a 1x1 projection where shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = NormRelu(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, padding=1, bias=False)
        self.bn2 = NormRelu(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c2 h2 w2"]:
        inner: Tensor = self.bn1(self.conv1(x))
        outer: Tensor = self.bn2(self.conv2(inner), self.shortcut(x))
        return outer


class SlimResNet18(Staged):
    """Stem of 3x3 at full size, four stages of two blocks, mean over what is left, one linear layer.

    ``SlimResNet18(20, 100)`` is the published network (1,109,240 parameters). Without ``outputs`` it ends before the
    linear layer, with 8 * width features.
    """

    def __init__(self, width: int, outputs: int | None, *, channels: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, 1, padding=1, bias=False)
        self.bn1 = NormRelu(width)
        self.layer1 = _stage(width, width, 1)
        self.layer2 = _stage(width, 2 * width, 2)
        self.layer3 = _stage(2 * width, 4 * width, 2)
        self.layer4 = _stage(4 * width, 8 * width, 2)
        self.linear = nn.Identity() if outputs is None else nn.Linear(8 * width, outputs)

    def stages(self) -> list[tuple[str, ...]]:
        """Stem and four stages."""
        return [("conv1", "bn1"), ("layer1",), ("layer2",), ("layer3",), ("layer4",)]

    def forward(self, x: Float[Tensor, "b c h w"]) -> Tensor:
        x = self.run_stages(x)
        return x if self.last is not None else self.linear(x.mean((2, 3)))


def _stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1))
