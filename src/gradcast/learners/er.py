"""Experience replay: every labelled batch is joined by random images from a reservoir of earlier ones."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Replay
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.replicas import Replicas
from gradcast.reservoir import Reservoir


@dataclass
class Er:
    """The loss is the mean over the batch and ``count`` replayed images; nothing is done to the gradient."""

    memory: Reservoir
    count: int = 10
    drawn: Replay | None = field(default=None, init=False)

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw from the past, then let the batch become part of it."""
        self.drawn = self.memory.draw(self.count)
        self.memory.write(batch)

    def replay(self) -> Replay | None:
        """What was drawn."""
        return self.drawn

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Nothing to compute."""

    def protected(self) -> list[PastGradients]:
        """The past is in the labelled gradient already."""
        return []

    def constrain(self, gradient: Gradient) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
        """The gradient as it is."""
        return gradient.flat, torch.zeros(len(gradient.flat), dtype=torch.bool, device=gradient.flat.device)

    def end(self, model: Replicas) -> None:
        """Nothing to keep."""
