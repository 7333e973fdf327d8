"""The signal *distil*: on the pool, the heads of past tasks keep the outputs that they had before this task."""

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Labelled, Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.table import Rate, Weight


class DistilSpec(SignalTable):
    """The heads of past tasks say what they said before this task."""

    name: Literal["distil"]
    weight: Weight = 1.0  # of the divergence
    temperature: Rate = 2.0  # that logits are divided by


class Distil(Signal):
    """Gradient of ``weight`` times the temperature-scaled divergence from the weights before the task.

    Both networks normalise with statistics of the batch: running ones are those of other images.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("task", "before")

    def __init__(self, *, weight: float, temperature: float) -> None:
        self.weight, self.temperature = weight, temperature
        self.task: int | None = None
        self.before: Float[Tensor, "r p"] | None = None  # weights before this task; keeps its place in memory

    def state(self) -> dict[str, Tensor]:
        """The weights before the last task."""
        return {} if self.before is None else {"before": self.before}

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """A new task's first batch comes before its first step."""
        if labelled.batch.task != self.task:
            self.task = labelled.batch.task
            theta = model.theta
            self.before = theta.clone() if self.before is None else self.before.copy_(theta)
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "separate"
    ) -> tuple[Gradient, Metrics]:
        """No past head, no gradient; the pass is made all the same."""
        assert self.before is not None
        with torch.no_grad():
            past = model.everything(unlabelled.x, statistics="separate", used=unlabelled.used, theta=self.before).z
        made = model.everything(unlabelled.x, statistics=statistics, used=unlabelled.used)
        if task == 0:
            return made.pull(torch.zeros_like(made.z)), {"signal_loss": made.z.new_zeros(len(made.z))}
        z = made.z.requires_grad_()
        now = past_heads(z, model.heads, task)
        loss, dz = divergence(now.detach(), past_heads(past, model.heads, task), self.temperature)
        (slope,) = torch.autograd.grad(now, z, self.weight * dz)
        return made.pull(slope), {"signal_loss": loss}


def past_heads(z: Float[Tensor, "r u c"], heads: Heads, task: int) -> Float[Tensor, "r u heads c2"]:
    """Columns of the past tasks' heads; where classes of several tasks compete, they are one head."""
    if not heads.masked:
        return heads.seen(z, task - 1).unsqueeze(2)
    return torch.stack([heads.columns(z, past) for past in range(task)], dim=2)


def divergence(
    z: Float[Tensor, "r u h c"], past: Float[Tensor, "r u h c"], temperature: float
) -> tuple[Float[Tensor, " r"], Float[Tensor, "r u h c"]]:
    """``T^2 KL(softmax(past / T) || softmax(z / T))``, mean over images and heads, and its gradient."""
    logs, target = (each / temperature for each in (z, past))
    logs, target = logs.log_softmax(-1), target.log_softmax(-1)
    count = z.shape[1] * z.shape[2]
    loss = temperature**2 * (target.exp() * (target - logs)).sum((1, 2, 3)) / count
    return loss, temperature * (logs.exp() - target.exp()) / count


def _build(table: DistilSpec, context: Context) -> Distil:
    return Distil(weight=table.weight, temperature=table.temperature)


ENTRY = signal_entry(
    DistilSpec, _build, "distillation", "two unlabelled passes; one more copy of the weights", "all-heads"
)
