"""Plain SGD on one task after another: the lower bound."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Replay
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.replicas import Replicas


@dataclass
class Finetune:
    """Remembers nothing, changes nothing."""

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Nothing to remember."""

    def replay(self) -> Replay | None:
        """Nothing to replay."""
        return None

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Nothing to prepare."""

    def protected(self) -> list[PastGradients]:
        """Nothing to protect."""
        return []

    def constrain(self, gradient: Gradient) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
        """The gradient as it is."""
        return gradient.flat, torch.zeros(len(gradient.flat), dtype=torch.bool, device=gradient.flat.device)

    def end(self, model: Replicas) -> None:
        """Nothing to keep."""
