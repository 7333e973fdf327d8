"""The signal *forward-only*: unlabelled images pass, and no gradient comes of it. A control for BatchNorm."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradcast.core import Labelled, Metrics, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas import Replicas, Statistics


class ForwardOnly:
    """What is left of a signal when its gradient is thrown away: running statistics that saw the pool."""

    def networks(self) -> Sequence[Replicas]:
        """None."""
        return ()

    def state(self) -> dict[str, Tensor]:
        """It learns nothing."""
        return {}

    def prepare(self, unlabelled: Unlabelled) -> None:
        """Nothing is drawn."""

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """Nothing is learned."""
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """Zero."""
        model.forward(unlabelled.x, task, statistics=statistics, used=unlabelled.used)
        return Gradient(torch.zeros_like(model.theta)), {}
