"""A head start as a script would write it, for comparison: nothing here is shared with the step that trains.

An ordinary network, autograd, ``torch.optim.SGD``, the contrastive loss as a classification of views, one seed.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize


def plain_contrast(projected: Tensor, temperature: float) -> Tensor:
    """SimCLR's loss of two views of each image, the first views before the second."""
    rows = normalize(projected, dim=1)
    count = len(rows)
    similar = (rows @ rows.t() / temperature).fill_diagonal_(-math.inf)
    partners = torch.arange(count, device=rows.device).roll(count // 2)
    return cross_entropy(similar, partners)


def projection_head(features: int, widths: list[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for before, after in zip([features, *widths], widths, strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@dataclass
class PlainHeadStart:
    """``network`` gives features, ``head`` what is compared; both are trained by one optimizer."""

    network: nn.Module
    head: nn.Module
    steps: int
    lr: float
    momentum: float
    weight_decay: float
    warm_up: float
    temperature: float
    weight: float = 1.0
    autocast: torch.dtype | None = None  # between images and features
    count: int = field(default=0, init=False)  # steps done

    def __post_init__(self) -> None:
        weights = [*self.network.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.SGD(weights, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)

    def step(self, views: Tensor) -> Tensor:
        """Train on two views of each image, the first views before the second; gives the loss before."""
        self.network.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        with torch.autocast(views.device.type, self.autocast, enabled=self.autocast is not None):
            features = self.network(views)
        loss = plain_contrast(self.head(features.to(views.dtype)), self.temperature)
        self.optimizer.zero_grad()
        (self.weight * loss).backward()
        self.optimizer.step()
        self.count += 1
        return loss.detach()

    def rate(self) -> float:
        """Up a straight line, then down half a cosine."""
        rising = round(self.warm_up * self.steps)
        if self.count < rising:
            return self.lr / rising * (self.count + 1)
        return self.lr * math.cos(math.pi / 2 * (self.count - rising) / (self.steps - rising)) ** 2
