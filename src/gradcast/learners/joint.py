"""Joint training, the upper bound of every continual learner: nothing is ever out of sight."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from gradcast.core import Batch, Learner, Replay
from gradcast.epochs.lessons import Lessons, Part
from gradcast.replicas.replicas import Replicas


@dataclass
class Joint(Learner):
    """A step of task t sees a batch of each of the tasks 0 to t, and the loss is the mean over all their images.

    Tasks have equally many images, so an epoch passes once through all of every task so far. Training goes on from the
    weights of the task before; validation images of all tasks so far decide.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("task", "steps")
    lessons: Lessons
    batch: int
    task: int = field(default=-1, init=False)
    steps: int = field(default=0, init=False)  # of the task
    size: int = field(default=0, init=False)  # of the batch under way
    drawn: dict[int, Replay] = field(default_factory=dict, init=False)  # by batch size; each keeps its place in memory
    parts: list[Part] = field(default_factory=list, init=False)  # earlier tasks in this epoch's order

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw the batches of earlier tasks that have this one's number."""
        if batch.task != self.task:
            self.task, self.steps, self.drawn, self.parts = batch.task, 0, {}, []
        epoch, number = divmod(self.steps, self.lessons.length(self.batch))
        self.steps += 1
        if number == 0 or len(self.parts) != batch.task:
            self.parts = [self.lessons.shuffled(task, epoch) for task in range(batch.task)]
        self.size = batch.y.shape[1]
        if not self.parts:
            return
        found = [self.lessons.batch(part, number, self.batch) for part in self.parts]
        tasks = [torch.full_like(each.y, each.task) for each in found]
        fresh = Replay(*(torch.cat(each, 1) for each in ([b.x for b in found], [b.y for b in found], tasks)))
        kept = self.drawn.setdefault(self.size, fresh)
        for place, new in ((kept.x, fresh.x), (kept.y, fresh.y)):
            place.copy_(new)

    def replay(self) -> Replay | None:
        """What was drawn."""
        return self.drawn.get(self.size) if self.parts else None

    def trains_from(self, task: int) -> int:
        """All tasks count."""
        return 0
