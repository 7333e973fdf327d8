"""Plain SGD on one task after another: the lower bound."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch
from gradcast.replicas import Replicas


@dataclass
class Finetune:
    """Remembers nothing, changes nothing."""

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Nothing to remember."""

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Nothing to prepare."""

    def constrain(self, gradient: Float[Tensor, "r p"]) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
        """The gradient as it is."""
        return gradient, torch.zeros(len(gradient), dtype=torch.bool, device=gradient.device)

    def end(self, model: Replicas) -> None:
        """Nothing to keep."""
