"""The signal *contrastive*: two views of an image shall look alike to the features, views of others shall not."""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from gradcast.core import Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas import Replicas, Statistics
from gradcast.signals.head import Head


class Contrastive(Signal):
    """Gradient of ``weight`` times the normalised temperature-scaled cross entropy of SimCLR."""

    remembers: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(self, head: Head, *, temperature: float, weight: float) -> None:
        self.head, self.temperature, self.weight = head, temperature, weight

    def state(self) -> dict[str, Tensor]:
        """The projection head."""
        return self.head.state()

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "separate"
    ) -> tuple[Gradient, Metrics]:
        """All views of a replica pass together."""

        def loss(projected: Tensor) -> Tensor:
            return contrast(projected, self.temperature)

        return self.head.descend(model, unlabelled, loss, weight=self.weight, statistics=statistics)


def contrast(projected: Float[Tensor, "r n d"], temperature: float) -> Float[Tensor, " r"]:
    """Each of n/2 images has a view in both halves; every view looks for its partner among all others, by cosine."""
    count = projected.shape[1]
    rows = normalize(projected, dim=-1)
    similar = rows @ rows.mT / temperature
    similar = similar.masked_fill(torch.eye(count, dtype=torch.bool, device=rows.device), -torch.inf)
    partners = (rows * rows.roll(count // 2, dims=1)).sum(-1) / temperature
    return (similar.logsumexp(-1) - partners).mean(-1)
