"""Gradient episodic memory: no step may raise the loss on the memories of a past task."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch
from gradcast.gradients.cone import project
from gradcast.memory import TaskMemory
from gradcast.replicas import Replicas


@runtime_checkable
class Direction(Protocol):
    """One more row among GEM's constraints."""

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
class Gem:
    """Projects the gradient on the cone of the past tasks' memory gradients (see ``gradients/cone.py``)."""

    memory: TaskMemory
    margin: float = 0.5
    qp_eps: float = 0.0
    direction: Direction | None = None
    rows: Tensor | None = field(default=None, init=False)  # [R, constraints, P] of the step under way

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Write the batch into memory."""
        if self.direction is not None:
            self.direction.prepare(model, batch.task)
        self.memory.write(batch)

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Take every earlier task's memory gradient, before the labelled pass."""
        rows = [model.task_gradients(past.x, past.y, past.tasks) for past in self.memory.past(batch.task)]
        if self.direction is not None:
            extra = self.direction.row(model)
            rows += [extra.unsqueeze(1)] if rows else []
        self.rows = None if not rows else rows[0] if len(rows) == 1 else torch.cat(rows, dim=1)

    def constrain(self, gradient: Float[Tensor, "r p"]) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
        """Project where a past task's gradient opposes this one."""
        if self.rows is None:
            return gradient, torch.zeros(len(gradient), dtype=torch.bool, device=gradient.device)
        return project(self.rows, gradient, margin=self.margin, eps=self.qp_eps)

    def end(self, model: Replicas) -> None:
        """Tell the extra direction where the weights went."""
        self.rows = None
        if self.direction is not None:
            self.direction.end(model)
