"""The signal *mean-teacher*: match an EMA teacher's prediction on another augmentation of the same image."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, LogitSignal, Metrics, Preview, Unlabelled
from gradcast.devices import to_device
from gradcast.gradients.cross_entropy import squared_distance
from gradcast.replicas.replicas import Replicas
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.table import Momentum, Weight
from gradcast.streams.draws import Views
from gradcast.training.average import move


class MeanTeacherSpec(SignalTable):
    """Match an EMA teacher's prediction on another augmentation; the teacher is evaluated."""

    name: Literal["mean-teacher"]
    weight: Weight = 10.0  # of the squared distance from the teacher's probabilities
    ema: Momentum = 0.999  # share of the past in the teacher's weights


class MeanTeacher(LogitSignal):
    """``weight`` times the mean squared distance of the model's probabilities from the teacher's, ramped up.

    The teacher's weights and running statistics are an exponential moving average of the model's: of all steps at
    first, later of the latest ``1 / (1 - ema)`` or so. It answers in evaluation mode, and is what is evaluated.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("teacher", "steps")
    ramped: ClassVar[bool] = True

    def __init__(self, teacher: Replicas, model: Replicas, *, weight: float = 10.0, ema: float = 0.999) -> None:
        self.teacher, self.weight, self.ema, self.steps = teacher, weight, ema, 0
        self.label: Float[Tensor, "r u c"] | None = None
        self.share = torch.ones((), dtype=model.theta.dtype, device=model.theta.device)  # of the model in the average
        self.end(model)

    def networks(self) -> Sequence[Replicas]:
        """The networks of the signal: the teacher."""
        return (self.teacher,)

    def evaluated(self) -> Replicas:
        """Evaluate the teacher in place of the model."""
        return self.teacher

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the teacher's weights."""
        named = self.teacher.parameters(self.teacher.theta) | self.teacher.buffers
        return {f"average.{name}": value for name, value in named.items()}

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """How much the model's weights after this step count."""
        self.steps += 1
        share = max(1 / (self.steps + 1), 1 - self.ema)
        self.share.copy_(to_device(torch.tensor(share, dtype=self.share.dtype), self.share.device))

    @torch.no_grad()
    def look(self, preview: Preview) -> Metrics:
        """The teacher's prediction on the other view."""
        z = self.teacher.forward(preview.other_view, preview.batch.task, statistics="frozen").z
        self.label = z.softmax(-1)
        return {}

    def slopes(
        self, model: Replicas, z: Float[Tensor, "r u c"], unlabelled: Unlabelled, task: int
    ) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """The gradient of the squared distance to the teacher's probabilities."""
        assert self.label is not None
        loss, dz = squared_distance(z, self.label)
        return self.weight * dz, {"signal_loss": loss}

    def end(self, model: Replicas) -> None:
        """Move the teacher towards the model's new weights."""
        move(self.teacher.theta, self.teacher.buffers, model, self.share)


def _build(table: MeanTeacherSpec, context: Context) -> MeanTeacher:
    return MeanTeacher(context.another("teacher"), context.model, weight=table.weight, ema=table.ema)


def _views(table: MeanTeacherSpec) -> Views:
    return Views(2)


ENTRY = signal_entry(
    MeanTeacherSpec,
    _build,
    "mean teacher",
    "two unlabelled passes; one more copy of the weights",
    "evaluates-teacher",
    views=_views,
)
