"""The episodic memory: a ring of the last samples of every task."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gradcast.core import Batch
from gradcast.replicas.passes.first_layer_cache import Which


@dataclass(frozen=True)
class Past:
    """Memories of consecutive past tasks that hold equally many samples."""

    x: Float[Tensor, "r k m *shape"]
    y: Int[Tensor, "r k m"]
    tasks: Int[Tensor, " k"]
    which: Which = (0, 0)  # task under way, place among its past: while that is the same, so are the memories


class TaskMemory:
    """``size`` rows a task, written in a ring.

    One write pointer serves all tasks and is not reset between them; a batch that reaches the end of the ring is cut
    there and the rest of it is not stored. Rows never written are never read.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("pointer", "order", "written", "seen")

    def __init__(self, tasks: int, size: int) -> None:
        self.size = size
        self.pointer = 0
        self.order: list[int] = []  # tasks in order of first appearance
        self.written = torch.zeros(tasks, size, dtype=torch.bool)
        self.x: Tensor | None = None  # [R, tasks, size, *shape], made when the first batch shows shape and device
        self.y: Tensor | None = None
        self._past: tuple[int, list[Past]] | None = None

    def fill(self, task: int) -> int:
        """How many rows the task has."""
        return int(self.written[task].sum())

    def write(self, batch: Batch) -> None:
        """Store as much of the batch as fits before the end of the ring."""
        if self.x is None or self.y is None:
            self.x, self.y = self._room(batch.x), self._room(batch.y)
        if batch.task not in self.order:
            self.order.append(batch.task)
        count = min(batch.x.shape[1], self.size - self.pointer)
        rows = slice(self.pointer, self.pointer + count)
        self.x[:, batch.task, rows] = batch.x[:, :count]
        self.y[:, batch.task, rows] = batch.y[:, :count]
        self.written[batch.task, rows] = True
        self.pointer = (self.pointer + count) % self.size

    def past(self, task: int) -> list[Past]:
        """Memories of all tasks but this one, in order of appearance; they do not change during the task."""
        if self._past is None or self._past[0] != task:
            self._past = (task, [self._gather(run, (task, place)) for place, run in enumerate(self._runs(task))])
        return self._past[1]

    @property
    def seen(self) -> tuple[Tensor, Tensor] | None:
        """The memories of tasks that have any, in order of appearance."""
        return None if self.x is None or self.y is None else (self.x[:, self.order], self.y[:, self.order])

    @seen.setter
    def seen(self, known: tuple[Tensor, Tensor] | None) -> None:
        self.x = self.y = self._past = None
        if known is not None:
            self.x, self.y = (self._room(part[:, 0]) for part in known)
            self.x[:, self.order], self.y[:, self.order] = known

    def _room(self, batch: Shaped[Tensor, "r b *shape"]) -> Shaped[Tensor, "r tasks size *shape"]:
        """For samples like these."""
        return batch.new_zeros(len(batch), len(self.written), self.size, *batch.shape[2:])

    def _runs(self, task: int) -> list[list[int]]:
        """Past tasks, cut where the number of filled rows changes."""
        runs: list[list[int]] = []
        for earlier in self.order:
            if earlier == task:
                continue
            if runs and self.fill(runs[-1][-1]) == self.fill(earlier):
                runs[-1].append(earlier)
            else:
                runs.append([earlier])
        return runs

    def _gather(self, run: list[int], which: Which) -> Past:
        assert self.x is not None
        assert self.y is not None
        tasks = torch.tensor(run, device=self.x.device)
        if self.fill(run[0]) == self.size and run == list(range(run[0], run[-1] + 1)):
            tasks_of = slice(run[0], run[-1] + 1)  # one replica: no copy; several: one a task instead of one a step
            return Past(self.x[:, tasks_of].contiguous(), self.y[:, tasks_of].contiguous(), tasks, which)
        rows = [self.written[task].nonzero().squeeze(1).to(self.x.device) for task in run]
        x = torch.stack([self.x[:, task, row] for task, row in zip(run, rows, strict=True)], dim=1)
        y = torch.stack([self.y[:, task, row] for task, row in zip(run, rows, strict=True)], dim=1)
        return Past(x, y, tasks, which)
