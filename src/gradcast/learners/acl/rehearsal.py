"""Stored images of earlier tasks, each with its own label, private module and head: they hold the shared module."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.core import Batch, Replay
from gradcast.memories.by_class import ClassMemory
from gradcast.training.task_modules import TaskModules


@dataclass
class Rehearsal:
    """Batch n of an epoch is joined, in all its updates, by what is stored of the earlier task n mod t.

    Tasks take turns because a pass has the private module and head of one task. What the device needs of them keeps
    its place in memory.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("memory",)
    memory: ClassMemory
    modules: TaskModules
    task: int = field(default=0, init=False)  # whose turn it is
    stored: Replay | None = field(default=None, init=False)  # its images
    theta: Float[Tensor, "r p"] | None = field(default=None, init=False)  # the present shared module, and its own rest

    def begin(self, batch: Batch, number: int) -> None:
        """Recall an earlier task for this batch, and store it where it is new."""
        self.stored = None
        if batch.task > 0:
            self.task = number % batch.task
            self.stored = self.memory.all_of(self.task)
        if (fresh := batch.fresh) is not None:
            self.memory.write(fresh)

    def prepare(self) -> None:
        """Before an update: the shared module as it is now."""
        if self.stored is not None:
            now = self.modules.weights_for(self.task)
            self.theta = now.clone() if self.theta is None else self.theta.copy_(now)

    def beside(self, batch: Batch) -> tuple[Float[Tensor, "r n *shape"], Int[Tensor, "r n"]]:
        """The batch's images and the stored ones, and the task of each."""
        tasks = batch.each_task
        if self.stored is None:
            return batch.x, tasks
        return torch.cat([batch.x, self.stored.x], dim=1), torch.cat([tasks, self.stored.tasks], dim=1)

    def shared_part(self, gradient: Float[Tensor, "r p"]) -> Float[Tensor, "r p"]:
        """Without what would reach modules of the earlier task: those are frozen."""
        kept = gradient.clone()
        kept[:, self.modules.alone] = 0
        return kept
