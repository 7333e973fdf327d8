"""A cosine classifier in place of a network's linear output layer."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.overrides import handle_torch_function, has_torch_function

from gradcast.networks.featured import Featured
from gradcast.networks.gates import scaled
from gradcast.networks.normalisation import NormRelu

ACTIVATIONS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.SiLU, nn.GELU, nn.ELU)
SHORTEST = 1e-8  # of rows that have a direction


def direction(x: Float[Tensor, "*any f"]) -> Float[Tensor, "*any f"]:
    """Rows of length one; one that is all but zero, as of a blank image, has no direction and passes no gradient."""
    length = x.norm(dim=-1, keepdim=True)
    return x / torch.where(length > SHORTEST, length, torch.inf)


def cosines(x: Tensor, weight: Tensor) -> Tensor:
    """The cosine between each row and each class's weights; open to overriding like torch's own functions."""
    if has_torch_function((x, weight)):
        taken: Tensor = handle_torch_function(cosines, (x, weight), x, weight)
        return taken
    return linear(direction(x), direction(weight))


class CosineLinear(nn.Linear):
    """``scale * cos(x, w)`` for the weights w of every class; the scale is learned and begins at 1."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Float[Tensor, "n f"]) -> Float[Tensor, "n c"]:
        return scaled(cosines(x, self.weight), self.scale)


def with_cosine_head(network: nn.Module, outputs: int) -> nn.Module:
    """The network with such an output layer, and without the activation before it: features have both signs.

    Of the old layer its weights stay. An activation that is no module of its own is not found, and stays too.
    """
    name = Featured(network, outputs).name
    old = network.get_submodule(name)
    assert isinstance(old, nn.Linear)
    new = CosineLinear(old.in_features, outputs).to(old.weight)
    with torch.no_grad():
        new.weight.copy_(old.weight)
    network.set_submodule(name, new)
    layers = [own for own, _ in network.named_modules(remove_duplicate=False)]  # one activation may serve twice
    for own in reversed(layers[: layers.index(name)]):
        layer = network.get_submodule(own)
        if isinstance(layer, NormRelu):
            layer.leak = 1.0
            break
        if isinstance(layer, ACTIVATIONS):
            network.set_submodule(own, nn.Identity())
            break
    return network
