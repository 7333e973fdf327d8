"""Progressive networks: a narrow AlexNet-like column a task, which sees what all earlier, frozen columns see.

Level i of column k computes, with the earlier columns' activations h' of the level before side by side,

    h_i = rest(W h + U relu(V (a h')))

where a is a learned number, V reduces h' to the width of one column and rest is ReLU, dropout and pooling. Nothing that
a later column learns changes an earlier one: there is no forgetting.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import relu

from gradcast.networks.alexnet import CHANNELS, WIDTHS, Layer, Shape, stages
from gradcast.networks.gates import scaled

FACTOR = 1.117  # published for AlexNet-like columns, which together take about the room of one network


def narrowed(widths: Sequence[int], tasks: int) -> tuple[int, ...]:
    """Widths of a column where there will be so many."""
    return tuple(max(1, int(FACTOR * width / tasks)) for width in widths)


class Lateral(nn.Module):
    """``U relu(V (a h'))``: what the activations of earlier columns add to a layer."""

    def __init__(self, earlier: int, features: int, layer: Layer, *, maps: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(0.1 * torch.rand(1))
        self.reduce: Layer
        self.expand: Layer
        if maps:
            self.reduce = nn.Conv2d(earlier * features, features, 1, bias=False)
        else:
            self.reduce = nn.Linear(earlier * features, features, bias=False)
        if isinstance(layer, nn.Conv2d):
            kernel = (layer.kernel_size[0], layer.kernel_size[1])
            self.expand = nn.Conv2d(features, layer.out_channels, kernel, bias=False)
        else:
            self.expand = nn.Linear(layer.in_features, layer.out_features, bias=False)

    def forward(self, seen: Float[Tensor, "b f *maps"]) -> Float[Tensor, "b o *left"]:
        reduced = relu(self.reduce(scaled(seen, self.scale)))
        added: Tensor = self.expand(_fitting(self.expand, reduced))
        return added


class Column(nn.Module):
    """One task's network, which comes after so many ``earlier`` ones of the same widths."""

    def __init__(
        self,
        earlier: int,
        outputs: int,
        *,
        shape: Shape,
        channels: Sequence[int] = CHANNELS,
        widths: Sequence[int] = WIDTHS,
    ) -> None:
        super().__init__()
        made = stages(shape, channels, widths)
        self.earlier = earlier
        self.layers = nn.ModuleList([*(layer for layer, _ in made), nn.Linear(widths[-1], outputs)])
        self.rest = nn.ModuleList([*(rest for _, rest in made), nn.Identity()])
        self.laterals = nn.ModuleList()
        if earlier:
            levels = zip((*channels, *widths), list(self.layers)[1:], strict=True)
            for level, (features, layer) in enumerate(levels):
                assert isinstance(layer, nn.Conv2d | nn.Linear)
                self.laterals.append(Lateral(earlier, features, layer, maps=level < len(channels)))

    def forward(self, x: Float[Tensor, "b c h w"], seen: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """Activations of every level, logits last; ``seen`` are those of the earlier columns."""
        assert len(seen) == self.earlier, "a column sees all earlier ones"
        found: list[Tensor] = []
        for level, (layer, rest) in enumerate(zip(self.layers, self.rest, strict=True)):
            z = layer(_fitting(layer, found[-1] if found else x))
            if seen and level > 0:
                z = z + self.laterals[level - 1](torch.cat([other[level - 1] for other in seen], dim=1))
            found.append(rest(z))
        return found


class PnnNetwork(nn.Module):
    """Columns in the order of their tasks, up to the ``newest``; those before it are frozen, and drop nothing out."""

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__()
        assert [column.earlier for column in columns] == list(range(len(columns))), "columns in order"
        self.columns = nn.ModuleList(columns)
        self.newest = len(columns) - 1
        self.train(self.training)

    def grow(self, task: int) -> None:
        """The task's column is the newest; later ones do not exist yet."""
        if task != self.newest:
            self.newest = task
            self.train(self.training)

    def train(self, mode: bool = True) -> "PnnNetwork":
        """Frozen columns stay as they are evaluated."""
        super().train(mode)
        for task, column in enumerate(self.columns):
            column.train(mode and task == self.newest)
        return self

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b columns"]:
        """Logits of all columns side by side, zero where there is none yet; only the newest has gradients."""
        seen: list[list[Tensor]] = []
        for column in list(self.columns)[: self.newest]:
            seen.append([activations.detach() for activations in column(x, seen)])
        seen.append(self.columns[self.newest](x, seen))
        missing = [torch.zeros_like(seen[0][-1])] * (len(self.columns) - len(seen))
        return torch.cat([*(activations[-1] for activations in seen), *missing], dim=1)


def pnn_network(
    shape: Shape, tasks: int, classes: int, *, channels: Sequence[int] = CHANNELS, widths: Sequence[int] = WIDTHS
) -> PnnNetwork:
    """As many columns as tasks, which together have about the room of one network of these widths."""
    narrow = {"channels": narrowed(channels, tasks), "widths": narrowed(widths, tasks)}
    return PnnNetwork([Column(earlier, classes, shape=shape, **narrow) for earlier in range(tasks)])


def _fitting(layer: nn.Module, h: Tensor) -> Tensor:
    """Maps become rows before a linear layer."""
    return h.flatten(1) if isinstance(layer, nn.Linear) else h
