"""Averaged gradient episodic memory: no step may raise the loss on random memories of all past tasks together."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Learner, Replay
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.gradients.half_space import project_one
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import DescentTable
from gradcast.memories.by_class import ClassMemory
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate


class AgemSpec(DescentTable):
    """Averaged gradient episodic memory."""

    name: Literal["a-gem"]
    lr: Rate = 0.03
    memory: Positive = 65  # samples kept a task, equally many of each class
    reference: Positive = 256  # samples of all earlier tasks that make a step's constraint
    batchnorm: Statistics = "update"  # what the memories' pass does to BatchNorm statistics


@dataclass
class Agem(Learner):
    """One constraint instead of GEM's one a task: the gradient on ``count`` memories drawn anew in every step."""

    checkpointed: ClassVar[tuple[str, ...]] = ("memory",)
    memory: ClassMemory
    count: int = 256
    batchnorm: Statistics = "update"  # what the memories' pass does to BatchNorm statistics
    drawn: Replay | None = field(default=None, init=False)
    reference: Gradient | None = field(default=None, init=False)  # of the step under way

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw from earlier tasks, and write the batch into memory."""
        self.drawn = self.memory.draw(batch.task, self.count)
        if (fresh := batch.fresh) is not None:
            self.memory.write(fresh)

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Take the gradient of what was drawn, each image with the columns of its own task."""
        self.reference = None
        if self.drawn is not None:
            made = model.forward(self.drawn.x, batch.task, tasks=self.drawn.tasks, statistics=self.batchnorm)
            self.reference = made.pull(cross_entropy(made.z, self.drawn.y)[1])

    def protected(self) -> list[PastGradients]:
        """The reference gradient of this step."""
        return [] if self.reference is None else [PastGradients(self.reference.flat.unsqueeze(1))]

    def constrain(self, gradient: Gradient) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
        """Remove the part of the gradient that opposes the reference."""
        if self.reference is None:
            return super().constrain(gradient)
        return project_one(self.reference.flat, gradient.flat)

    def end(self, model: Replicas) -> None:
        """Drop the reference: it belongs to the old weights."""
        self.reference = None


def _build(table: AgemSpec, context: Context) -> Agem:
    memory = ClassMemory(context.model.heads, table.memory, seeds=context.seeds)
    return Agem(memory, table.reference, table.batchnorm)


ENTRY = learner_entry(
    AgemSpec,
    _build,
    "A-GEM",
    "one pass of reference images in each step; memory images a task",
    recalled=lambda table, past, batch: (min(past * table.memory, table.reference), min(past, 1)),
)
