"""Joint training, the upper bound of every continual learner: every step sees all tasks so far."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch

from gradcast.core import Batch, Learner, Replay
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import DescentTable
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import Rate
from gradcast.streams.task_data import Portion, TaskData


class JointSpec(DescentTable):
    """All tasks so far together, an upper bound: a step of task t sees a batch of each of the tasks 0 to t."""

    name: Literal["joint"]
    lr: Rate = 0.01


@dataclass
class Joint(Learner):
    """A step of task t sees a batch of each of the tasks 0 to t, and the loss is the mean over all their images.

    An epoch passes once through the present task, and earlier tasks keep step with it. Training goes on from the
    weights of the task before; validation images of all tasks so far decide.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("task", "steps")
    data: TaskData
    batch: int
    task: int = field(default=-1, init=False)
    steps: int = field(default=0, init=False)  # of the task
    size: int = field(default=0, init=False)  # images drawn for the batch under way
    drawn: dict[int, Replay] = field(default_factory=dict, init=False)  # by images; each keeps its place in memory
    parts: list[Portion] = field(default_factory=list, init=False)  # earlier tasks in this epoch's order

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw the batches of earlier tasks that have this one's number."""
        if batch.task != self.task:
            self.task, self.steps, self.drawn, self.parts = batch.task, 0, {}, []
        epoch, number = divmod(self.steps, self.data.length(batch.task, self.batch))
        self.steps += 1
        if number == 0 or len(self.parts) != batch.task:
            self.parts = [self.data.epoch(task, epoch) for task in range(batch.task)]
        if not self.parts:
            return
        found = [self._batch(part, number) for part in self.parts]
        tasks = [torch.full_like(each.y, each.task) for each in found]
        x, y = torch.cat([each.x for each in found], 1), torch.cat([each.y for each in found], 1)
        fresh = Replay(x, y, torch.cat(tasks, 1))
        self.size = fresh.y.shape[1]
        kept = self.drawn.setdefault(self.size, fresh)
        for place, new in ((kept.x, fresh.x), (kept.y, fresh.y)):
            place.copy_(new)

    def _batch(self, part: Portion, number: int) -> Batch:
        """The batch of this number; a task with fewer batches begins again."""
        start = number % self.data.length(part.task, self.batch) * self.batch
        return self.data.batch(part.cut(start, min(start + self.batch, part.y.shape[1])))

    def replay(self) -> Replay | None:
        """The images of earlier tasks drawn for this step."""
        return self.drawn.get(self.size) if self.parts else None

    def trains_from(self, task: int) -> int:
        """The first task whose images are trained on: all tasks count."""
        return 0


def _build(table: JointSpec, context: Context) -> Joint:
    assert context.data is not None
    return Joint(context.data, context.batch)


ENTRY = learner_entry(
    JointSpec,
    _build,
    "joint training",
    "a batch of every task so far in each step; all images",
    recalled=lambda table, past, batch: (past * batch, 0),
)
