"""Memory aware synapses: weights that the outputs depend on are held where the last task left them."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Labelled, Learner, TaskImages, Terms
from gradcast.learners.anchor import Anchor
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import DescentTable
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate, Weight

Combine = Literal["reset", "average", "sum"]
OLD_SHARE = 0.5  # of the importance so far, in an average


class MasSpec(DescentTable):
    """Memory aware synapses: a quadratic penalty, with importance from the outputs and without labels."""

    name: Literal["mas"]
    lr: Rate = 0.03
    penalty: Weight = 0.1  # weight of the penalty
    combine: Combine = "reset"  # importance of the last task alone, half of it and half of the former, or the sum
    together: Positive = 10  # images whose gradients are added before the absolute value; 1: each image by itself


@dataclass
class Mas(Learner):
    """Adds ``strength * sum_i Omega_i (w_i - w*_i)^2`` to the loss, with ``w*`` from the end of the last task.

    ``Omega = (1/N) sum |d/dw sum_x ||f(x)||^2|`` after a task, over its N images in groups of ``together``, in
    evaluation mode; ``f`` are the logits of the task's own classes. An ``average`` begins at 0.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("anchor",)
    strength: float = 0.1
    combine: Combine = "reset"
    together: int = 10
    anchor: Anchor = field(init=False)

    def __post_init__(self) -> None:
        self.anchor = Anchor(self.strength)

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """The task's importances join those of the tasks before it, and its weights are held."""
        new, old = self._importance(model, images), self.anchor.importance
        if self.combine == "average":
            new = (1 - OLD_SHARE) * new if old is None else OLD_SHARE * old + (1 - OLD_SHARE) * new
        elif self.combine == "sum" and old is not None:
            new = old + new
        self.anchor.drop(model, new)

    def _importance(self, model: Replicas, images: TaskImages) -> Float[Tensor, "r p"]:
        own = model.theta.new_zeros(model.heads.outputs)
        own[list(model.heads.task_columns[images.task])] = 1
        total, count = torch.zeros_like(model.theta), 0
        for batch in images.batches(self.together):
            made = model.everything(batch.x, statistics="frozen")
            total += made.pull(2 * made.z * own).flat.abs()
            count += batch.y.shape[1]
        return total / count

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """The penalty; there is none in the first task."""
        return self.anchor.terms(model)

    def penalty(self, model: Replicas) -> Float[Tensor, " r"] | None:
        """How large it is."""
        return self.anchor.penalty(model)


def _build(table: MasSpec, context: Context) -> Mas:
    return Mas(table.penalty, table.combine, table.together)


ENTRY = learner_entry(
    MasSpec, _build, "MAS", "a pass through every task at its end; two more copies of the weights", "past-tasks"
)
