"""Learning without forgetting: on the images of a new task, old heads say what they said before it."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Labelled, Learner, TaskImages, Terms
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import DescentTable
from gradcast.replicas.replicas import Replicas
from gradcast.signals.distil import divergence, past_heads
from gradcast.specs.context import Context
from gradcast.specs.table import Rate, Weight


class LwfSpec(DescentTable):
    """Learning without forgetting: distillation of the old heads on the new task's images; no memory."""

    name: Literal["lwf"]
    lr: Rate = 0.03
    weight: Weight = 1.0  # of the distillation
    temperature: Rate = 2.0  # of both softmaxes


@dataclass
class Lwf(Learner):
    """Adds ``weight * T^2 KL(softmax(old / T) || softmax(new / T))`` of the old heads, a mean over images and heads.

    ``old`` comes from the weights before the task, normalised with statistics of the batch like ``new``: running ones
    would be those of the weights of now.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("before",)
    weight: float = 1.0
    temperature: float = 2.0
    before: Float[Tensor, "r p"] | None = field(default=None, init=False)  # weights before this task

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """The present weights are the teacher of the next task."""
        self.before = model.theta.clone() if self.before is None else self.before.copy_(model.theta)

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """The distillation; there is none in the first task."""
        if self.before is None:
            return None
        task, x = labelled.batch.task, labelled.batch.x
        with torch.no_grad():
            old = model.everything(x, statistics="separate", theta=self.before).z
        outputs = labelled.outputs.detach().requires_grad_()
        new = past_heads(outputs, model.heads, task)
        loss, slope = divergence(new.detach(), past_heads(old, model.heads, task), self.temperature)
        (slopes,) = torch.autograd.grad(new, outputs, self.weight * slope)
        return Terms(outputs=slopes, metrics={"distillation": loss})


def _build(table: LwfSpec, context: Context) -> Lwf:
    return Lwf(table.weight, table.temperature)


ENTRY = learner_entry(
    LwfSpec,
    _build,
    "LwF",
    "one more pass of the batch, forward alone; one more copy of the weights",
    "unmixed",
    "past-tasks",
)
