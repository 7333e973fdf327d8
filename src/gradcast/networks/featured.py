"""Any network, with what its output layer sees beside what it says."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradcast.errors import GradcastError

PREFIX = "network."  # of the names of a featured network's weights


def last_linear(network: nn.Module) -> tuple[str, nn.Linear] | None:
    """Name and layer of the network's last linear layer, in the order in which it names its layers."""
    layers = [(name, layer) for name, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    return layers[-1] if layers else None


class Featured(nn.Module):
    """Gives the input of the network's last linear layer, then its outputs, in one row an image."""

    def __init__(self, network: nn.Module, outputs: int) -> None:
        super().__init__()
        self.network = network
        last = last_linear(network)
        if last is None or last[1].out_features != outputs:
            raise self._unfit(outputs)
        self.name, self.width = last[0], last[1].in_features

    def _unfit(self, outputs: int) -> GradcastError:
        return GradcastError(
            f"the network {type(self.network).__name__} does not end in a linear layer of {outputs} outputs, whose "
            "inputs would be its features; choose another network, or for a signal one that works on logits"
        )

    @torch.no_grad()
    def check(self, x: Float[Tensor, "n *shape"]) -> None:
        """Raise where that layer does not make the network's outputs out of one row an image."""
        last, training = self.network.get_submodule(self.name), self.network.training
        found: list[tuple[Tensor, Tensor]] = []
        hook = last.register_forward_hook(lambda _, inputs, output: found.append((inputs[0], output)))
        try:
            y = self.network.eval()(x)
        finally:
            hook.remove()
            self.network.train(training)
        if not found or found[-1][0].dim() != 2 or not torch.equal(found[-1][1], y):
            raise self._unfit(y.shape[-1])

    def forward(self, x: Float[Tensor, "n *shape"]) -> Float[Tensor, "n both"]:
        """Features and logits side by side, features first."""
        seen: list[Tensor] = []
        last = self.network.get_submodule(self.name)
        hook = last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        try:
            y = self.network(x)
        finally:
            hook.remove()
        return torch.cat([seen[-1], y], dim=-1)
