"""EfficientNet and EfficientNet-Lite, such that the published ImageNet weights fit."""

from math import ceil
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from gradcast.networks.staged import Staged

Images = Float[Tensor, "b c h w"]


class Stage(NamedTuple):
    """Blocks of one width; the first one strides."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    width: int


STEM, HEAD = 32, 1280
STAGES = (
    Stage(1, 3, 1, 1, 16), Stage(2, 3, 2, 6, 24), Stage(2, 5, 2, 6, 40), Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112), Stage(4, 5, 2, 6, 192), Stage(1, 3, 1, 6, 320),
)  # fmt: skip


class Variant(NamedTuple):
    """What sets the variants apart; all have the widths of ``STAGES``, wider ones are not offered."""

    depth: float  # factor on a stage's number of blocks, rounded up
    size: int  # side of the images it was made for
    dropout: float
    lite: bool  # for small devices: ReLU6 for SiLU, no channel gates, first and last stage never deepened

    def stages(self) -> list[Stage]:
        """One for every block."""
        fixed = (STAGES[0], STAGES[-1]) if self.lite else ()
        count = {stage: stage.blocks if stage in fixed else ceil(self.depth * stage.blocks) for stage in STAGES}
        return [stage._replace(stride=1) if again else stage for stage in STAGES for again in range(count[stage])]


VariantName = Literal["b0", "b1", "lite0", "lite1"]
VARIANTS: dict[VariantName, Variant] = {
    "b0": Variant(1.0, 224, 0.2, lite=False),
    "b1": Variant(1.1, 240, 0.2, lite=False),
    "lite0": Variant(1.0, 224, 0.2, lite=True),
    "lite1": Variant(1.1, 240, 0.2, lite=True),
}


class SamePadded(nn.Conv2d):
    """A convolution without bias, padded by zeros as TensorFlow's "same" does for images of side ``size``.

    ``size`` is what arrives here when the network sees the images its variant was made for, whatever the true size, as
    in efficientnet_lite_pytorch 0.1.0 (early releases of efficientnet_pytorch differ). At 64x64, one layer of "b1" and
    "lite1" is then not padded by the true size: made for 15 pixels, with 2 on each side, where 4 would get 1 and 2.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, *, size: int, stride: int, groups: int = 1) -> None:
        missing = max((ceil(size / stride) - 1) * stride + kernel - size, 0)
        super().__init__(inputs, outputs, kernel, stride, padding=missing // 2, groups=groups, bias=False)
        self.odd = missing % 2  # an odd pixel goes to the right and to the bottom

    def forward(self, x: Images) -> Float[Tensor, "b c2 h2 w2"]:
        return super().forward(F.pad(x, (0, self.odd, 0, self.odd)) if self.odd else x)


class ChannelGate(nn.Module):
    """Squeeze and excitation: every channel times a number in (0, 1) that the means of all channels decide."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Images) -> Images:
        return x * torch.sigmoid(self.expand(F.silu(self.reduce(x.mean((2, 3), keepdim=True)))))


class DropConnect(nn.Dropout):
    """Stochastic depth: whole images are set to zero, the others grow so that the mean stays."""

    def forward(self, x: Images) -> Images:
        # The mask comes from dropout, not from a generator: whoever replaces dropout's random numbers has these too.
        return x * F.dropout(torch.ones_like(x[:, :1, :1, :1]), self.p, self.training)


class Block(nn.Module):
    """Inverted bottleneck: 1x1 to more channels, each filtered by itself and gated, 1x1 to fewer; and a skip."""

    def __init__(self, inputs: int, stage: Stage, *, size: int, lite: bool, drop: float) -> None:
        super().__init__()
        active = nn.ReLU6() if lite else nn.SiLU()
        inner = inputs * stage.expansion
        depthwise = SamePadded(inner, inner, stage.kernel, size=size, stride=stage.stride, groups=inner)
        self.widen = nn.Sequential() if inner == inputs else _layer(nn.Conv2d(inputs, inner, 1, bias=False), active)
        self.depthwise = _layer(depthwise, active)
        self.gate = nn.Identity() if lite else ChannelGate(inner, inputs // 4)
        self.narrow = _layer(nn.Conv2d(inner, stage.width, 1, bias=False), nn.Identity())
        self.drop = DropConnect(drop) if stage.stride == 1 and inputs == stage.width else None

    def forward(self, x: Images) -> Float[Tensor, "b c2 h2 w2"]:
        y: Tensor = self.narrow(self.gate(self.depthwise(self.widen(x))))
        return y if self.drop is None else self.drop(y) + x


class EfficientNet(Staged):
    """Stem, blocks, head, mean over what is left, dropout, one linear layer.

    ``EfficientNet("b1", 100)`` is the network of the paper (6,641,284 parameters); with 1000 outputs, "b1" has
    7,794,184 and "lite1" 5,416,680. Sides of images shorter than ``upsample`` are stretched to it; without it, images
    must be 32x32 or larger. The chance that an image skips a block grows with depth, from zero to ``drop_connect``.
    """

    def __init__(
        self,
        variant: VariantName,
        outputs: int,
        *,
        channels: int = 3,
        drop_connect: float = 0.2,
        dropout: float | None = None,
        upsample: int | None = 64,
    ) -> None:
        super().__init__()
        kind = VARIANTS[variant]
        active = nn.ReLU6() if kind.lite else nn.SiLU()
        self.upsample = upsample
        self.stem = _layer(SamePadded(channels, STEM, 3, size=kind.size, stride=2), active)
        self.blocks = nn.Sequential()
        width, size, self.made_of = STEM, ceil(kind.size / 2), kind.stages()
        for index, stage in enumerate(self.made_of):
            drop = drop_connect * index / len(self.made_of)
            self.blocks.append(Block(width, stage, size=size, lite=kind.lite, drop=drop))
            width, size = stage.width, ceil(size / stage.stride)
        self.head = _layer(nn.Conv2d(width, HEAD, 1, bias=False), active)
        self.dropout = nn.Dropout(kind.dropout if dropout is None else dropout)
        self.classifier = nn.Linear(HEAD, outputs)

    def stages(self) -> list[tuple[str, ...]]:
        """Stem, the blocks of each width, head."""
        widths = list(dict.fromkeys(stage.width for stage in self.made_of))
        blocks = [
            tuple(f"blocks.{place}" for place, stage in enumerate(self.made_of) if stage.width == width)
            for width in widths
        ]
        return [("stem",), *blocks, ("head",)]

    def forward(self, x: Images) -> Tensor:
        x = self.run_stages(x if self.first else self._enlarged(x))
        return x if self.last is not None else self.classifier(self.dropout(x.mean((2, 3))))

    def _enlarged(self, x: Images) -> Float[Tensor, "b c h2 w2"]:
        size = [max(side, self.upsample or 0) for side in x.shape[2:]]
        return x if size == list(x.shape[2:]) else F.interpolate(x, size, mode="bilinear", align_corners=True)


def _layer(convolution: nn.Conv2d, activation: nn.Module) -> nn.Sequential:
    norm = nn.BatchNorm2d(convolution.out_channels, eps=1e-3, momentum=0.01)
    return nn.Sequential(convolution, norm, activation)


PUBLISHED = {"_conv_stem": "stem.0", "_bn0": "stem.1", "_conv_head": "head.0", "_bn1": "head.1", "_fc": "classifier"}
PUBLISHED_IN_BLOCKS = {
    "_expand_conv": "widen.0", "_bn0": "widen.1", "_depthwise_conv": "depthwise.0", "_bn1": "depthwise.1",
    "_se_reduce": "gate.reduce", "_se_expand": "gate.expand", "_project_conv": "narrow.0", "_bn2": "narrow.1",
}  # fmt: skip


def from_published_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of ``efficientnet_pytorch`` and ``efficientnet_lite_pytorch`` under our names; others stay."""
    found = {}
    for name, tensor in state.items():
        path, _, entry = name.rpartition(".")
        block, _, layer = path.rpartition(".")
        own = (PUBLISHED_IN_BLOCKS if block else PUBLISHED).get(layer)
        found[name if own is None else ".".join(filter(None, (block.removeprefix("_"), own, entry)))] = tensor
    return found
