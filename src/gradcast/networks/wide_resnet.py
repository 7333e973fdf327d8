"""The wide residual network of newer semi-supervised experiments: WRN-28-2."""

from jaxtyping import Float
from torch import Tensor, nn

from gradcast.networks.normalisation import NormRelu
from gradcast.networks.staged import Staged

LEAK, EPS = 0.1, 1e-3  # of leaky ReLU and BatchNorm
STEM = 16  # channels before the first block


class PreactivatedBlock(nn.Module):
    """BatchNorm and leaky ReLU before each of two 3x3 convolutions; a 1x1 projection where the channels change.

    With ``early`` the shortcut starts after the first BatchNorm and leaky ReLU, without it before them.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, *, early: bool, momentum: float) -> None:
        super().__init__()
        self.early = early
        self.bn1 = NormRelu(inputs, leak=LEAK, eps=EPS, momentum=momentum)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn2 = NormRelu(outputs, leak=LEAK, eps=EPS, momentum=momentum)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, padding=1, bias=False)
        changes = stride != 1 or inputs != outputs
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if changes else nn.Identity()

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c2 h2 w2"]:
        active: Tensor = self.bn1(x)
        inner: Tensor = self.conv2(self.bn2(self.conv1(active)))
        beside: Tensor = self.shortcut(active if self.early else x)
        return beside + inner


class WideResNet(Staged):
    """Stem of 3x3, three stages of ``(depth - 4) / 6`` blocks each, mean over what is left, one linear layer.

    ``WideResNet(28, 2, 10)`` is WRN-28-2 with 1,467,610 parameters. ``momentum`` is the share of a batch in BatchNorm's
    running statistics.
    """

    def __init__(self, depth: int, width: int, outputs: int, *, channels: int = 3, momentum: float = 0.1) -> None:
        super().__init__()
        blocks, widths = (depth - 4) // 6, [STEM, STEM * width, 2 * STEM * width, 4 * STEM * width]

        def stage(number: int) -> nn.Sequential:
            made = []
            for block in range(blocks):
                first = block == 0
                inputs = widths[number - 1] if first else widths[number]
                stride, early = 2 if first and number > 1 else 1, first and number == 1
                made.append(PreactivatedBlock(inputs, widths[number], stride, early=early, momentum=momentum))
            return nn.Sequential(*made)

        self.conv1 = nn.Conv2d(channels, STEM, 3, 1, padding=1, bias=False)
        self.stage1, self.stage2, self.stage3 = stage(1), stage(2), stage(3)
        self.bn = NormRelu(widths[-1], leak=LEAK, eps=EPS, momentum=momentum)
        self.linear = nn.Linear(widths[-1], outputs)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="leaky_relu")
        nn.init.xavier_normal_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def stages(self) -> list[tuple[str, ...]]:
        """Stem and three stages."""
        return [("conv1",), ("stage1",), ("stage2",), ("stage3", "bn")]

    def forward(self, x: Float[Tensor, "b c h w"]) -> Tensor:
        x = self.run_stages(x)
        return x if self.last is not None else self.linear(x.mean((2, 3)))
