"""The multilayer perceptron of the MNIST experiments."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

Norm = Literal["none", "batch"]


class MLP(nn.Module):
    """Linear layers with ReLU between them.

    ``MLP([784, 100, 100, 10])`` is the published network (89,610 parameters). ``norm="batch"`` puts BatchNorm before
    each ReLU.
    """

    def __init__(self, sizes: Sequence[int], *, norm: Norm = "none") -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
            if index:
                layers += [nn.BatchNorm1d(fan_in)] if norm == "batch" else []
                layers.append(nn.ReLU())
            layers.append(linear_layer(fan_in, fan_out))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "b c"]:
        logits: Tensor = self.layers(x.flatten(1))
        return logits


def linear_layer(inputs: int, outputs: int) -> nn.Linear:
    """Weights uniform by the fan-average rule, biases zero."""
    made = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(made.weight)
    nn.init.zeros_(made.bias)
    return made
