"""One network for each task, and nothing that they share."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


class TaskNetworks(nn.Module):
    """Logits of all tasks side by side, each by the task's own network.

    In training mode only the network of the ``present`` task runs, and the logits of all others are zero: they could
    not learn anything from its images.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.present = 0

    def forward(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "b logits"]:
        if not self.training:
            return torch.cat([network(x) for network in self.networks], dim=1)
        own: Tensor = self.networks[self.present](x)
        others = torch.zeros_like(own)
        return torch.cat([own if task == self.present else others for task in range(len(self.networks))], dim=1)
