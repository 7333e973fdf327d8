"""A multilayer perceptron whose first layer belongs to one task."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import relu

from gradcast.networks.mlp import MLP, linear_layer


class EntranceNetwork(nn.Module):
    """``shared`` layers after an ``entrance``, the first linear layer, and ReLU.

    ``EntranceNetwork([784, 100, 100, 10])`` computes what ``MLP`` of the same sizes does.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.shared = MLP(sizes[1:])
        self.entrance = linear_layer(sizes[0], sizes[1])

    def forward(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "b c"]:
        logits: Tensor = self.shared(relu(self.entrance(x.flatten(1))))
        return logits
