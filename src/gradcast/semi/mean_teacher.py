"""The part *mean teacher*: agree with a moving average of oneself that sees the images otherwise augmented."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics, Unlabelled
from gradcast.devices import to_device
from gradcast.replicas.replicas import Replicas
from gradcast.semi.core import Moment, Part
from gradcast.signals.meta_gradient import squared_distance
from gradcast.training.average import move


class MeanTeacher(Part):
    """``weight`` times the mean squared distance of the model's probabilities from the teacher's, ramped up.

    The teacher is a network like the model whose weights and running statistics are moving averages: of all steps at
    first, later of the latest ``1 / (1 - memory)`` or so. It answers by its running statistics, and is the one to test.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("teacher",)
    views: ClassVar[int] = 2

    def __init__(self, teacher: Replicas, model: Replicas, *, weight: float = 10.0, memory: float = 0.999) -> None:
        self.teacher, self.weight, self.memory = teacher, weight, memory
        self.label: Float[Tensor, "r u c"] | None = None
        self.share = torch.ones((), dtype=model.theta.dtype, device=model.theta.device)  # of the model in the average
        self.end(model)

    def networks(self) -> Sequence[Replicas]:
        """The teacher."""
        return (self.teacher,)

    def state(self) -> dict[str, Tensor]:
        """The teacher's weights."""
        named = self.teacher.parameters(self.teacher.theta) | self.teacher.buffers
        return {f"average.{name}": value for name, value in named.items()}

    def prepare(self, unlabelled: Unlabelled, step: int) -> None:
        """How much the model's weights after this step count."""
        share = max(1 / (step + 1), 1 - self.memory)
        self.share.copy_(to_device(torch.tensor(share, dtype=self.share.dtype), self.share.device))

    @torch.no_grad()
    def watch(self, moment: Moment) -> Metrics:
        """What the teacher says."""
        z = self.teacher.forward(moment.other_view, moment.batch.task, statistics="frozen").z
        self.label = z.softmax(-1)
        return {}

    def slopes(self, moment: Moment, z: Float[Tensor, "r u c"]) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """Of the squared distance."""
        assert self.label is not None
        loss, dz = squared_distance(z, self.label)
        return self.weight * moment.weight * dz, {"signal_loss": loss}

    def end(self, model: Replicas) -> None:
        """The average moves."""
        move(self.teacher.theta, self.teacher.buffers, model, self.share)
