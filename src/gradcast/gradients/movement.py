"""Whether a network learns: how far its weights are from where they began."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Movement:
    """Of a network with one entry a replica along the first axis of every weight."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.initial = [weight.detach().clone() for weight in network.parameters()]

    @torch.no_grad()
    def __call__(self) -> Float[Tensor, " r"]:
        """The distance, relative to the length of the weights there."""
        pairs = list(zip(self.network.parameters(), self.initial, strict=True))
        moved = sum((now - then).flatten(1).square().sum(1) for now, then in pairs)
        length = sum(then.flatten(1).square().sum(1) for _, then in pairs)
        return (torch.as_tensor(moved) / torch.as_tensor(length)).sqrt()
