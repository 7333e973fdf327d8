"""Gradient episodic memory: no step may raise the loss on the memories of a past task."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Learner
from gradcast.gradients.cone import project
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import DescentTable
from gradcast.memories.ring import TaskMemory
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate, Weight


class GemSpec(DescentTable):
    """Gradient episodic memory: no step may raise the loss on the memory of a past task."""

    name: Literal["gem"] = "gem"
    lr: Rate = 0.1
    memory: Positive = 256  # samples kept a task
    margin: Weight = 0.5  # added to the multipliers of violated constraints
    qp_eps: Weight = 0.0  # ridge of the quadratic programme
    batchnorm: Statistics = "update"  # what the memories' passes do to BatchNorm statistics


@runtime_checkable
class Direction(Protocol):
    """One more row among GEM's constraints."""

    checkpointed: ClassVar[tuple[str, ...]] = ()

    def prepare(self, model: Replicas, task: int) -> None:
        """A step of this task is coming."""
        ...

    def row(self, model: Replicas) -> Float[Tensor, "r p"]:
        """The row at the weights before the step; zeros constrain nothing."""
        ...

    def end(self, model: Replicas) -> None:
        """The weights have been updated."""
        ...


@dataclass
class Gem(Learner):
    """Projects the gradient on the cone of the past tasks' memory gradients (see ``gradients/cone.py``)."""

    checkpointed: ClassVar[tuple[str, ...]] = ("memory", "direction")
    memory: TaskMemory
    margin: float = 0.5
    qp_eps: float = 0.0
    direction: Direction | None = None
    batchnorm: Statistics = "update"  # what the memories' passes do to BatchNorm statistics
    past: list[PastGradients] = field(default_factory=list, init=False)  # of the step under way

    def guard(self) -> "Gem":
        """The same memories protect another network; the extra direction is of one network's weights and stays."""
        return replace(self, direction=None)

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Write the batch into memory."""
        if self.direction is not None:
            self.direction.prepare(model, batch.task)
        if (fresh := batch.fresh) is not None:
            self.memory.write(fresh)

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Take every earlier task's memory gradient, before the labelled pass."""
        self.past = [
            model.recall(past.x, past.y, past.tasks, task=batch.task, which=past.which, statistics=self.batchnorm)
            for past in self.memory.past(batch.task)
        ]
        if self.direction is not None:
            row = self.direction.row(model)
            self.past += [PastGradients(row.unsqueeze(1))] if self.past else []

    def protected(self) -> list[PastGradients]:
        """The memory gradients of this step."""
        return self.past if self.direction is None else self.past[:-1]

    def constrain(self, gradient: Gradient) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
        """Project where a past task's gradient opposes this one.

        On the host, memory gradients are formed only for replicas that need them. On a GPU that question would make
        the host wait for the answer.
        """
        flat = gradient.flat
        if not self.past:
            return super().constrain(gradient)
        if flat.is_cuda:
            return self._project(flat, None)
        opposed = (_joined([each.inner(gradient) for each in self.past]) < 0).any(-1)
        if not opposed.any():
            return flat, opposed
        if opposed.all():  # no copy of everything
            return self._project(flat, None)
        projected, violated = self._project(flat[opposed], opposed)
        return flat.masked_scatter(opposed.unsqueeze(1), projected), opposed.masked_scatter(opposed, violated)

    def _project(self, flat: Tensor, replicas: Tensor | None) -> tuple[Tensor, Tensor]:
        rows = _joined([each.rows(replicas) for each in self.past])
        return project(rows, flat, margin=self.margin, eps=self.qp_eps)

    def end(self, model: Replicas) -> None:
        """Tell the extra direction where the weights went."""
        self.past = []
        if self.direction is not None:
            self.direction.end(model)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _build(table: GemSpec, context: Context) -> Gem:
    memory = TaskMemory(context.tasks, table.memory)
    return Gem(memory, margin=table.margin, qp_eps=table.qp_eps, batchnorm=table.batchnorm)


ENTRY = learner_entry(
    GemSpec,
    _build,
    "GEM",
    "a pass of every past task's memory in each step; memory images a task",
    "memory",
    recalled=lambda table, past, batch: (past * table.memory, past),
)
