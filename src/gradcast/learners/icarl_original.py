"""Class-incremental iCaRL: a sigmoid for every class, rehearsal, and the nearest class mean of features."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot, pad

from gradcast.core import Batch, Labelled, Learner, Replay, Scorer, TaskImages, Terms
from gradcast.devices import to_device
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.learners.herding import directions, exemplars
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import TaskMemoryTable
from gradcast.memories.by_class import ClassMemory
from gradcast.networks.cosine import direction
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import Rate, Weight


class OriginalIcarlSpec(TaskMemoryTable):
    """Class-incremental iCaRL: sigmoids, rehearsal, herding, and the nearest mean of features."""

    name: Literal["icarl-original"]
    lr: Rate = 0.1
    decay: Weight = 2e-5  # weight decay of SGD


@dataclass
class OriginalIcarl(Learner):
    """Binary cross entropy of batch and replay, a mean over images and all classes so far.

    The targets of the task's classes are labels, those of the others what the weights before the task gave.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("memory", "before")
    memory: ClassMemory
    count: int = 10  # replayed a step
    before: Float[Tensor, "r p"] | None = field(default=None, init=False)  # weights before this task
    drawn: Replay | None = field(default=None, init=False)
    own: tuple[int, Bool[Tensor, " outputs"]] | None = field(default=None, init=False)  # columns of a task's classes

    def task_begins(self, model: Replicas, images: TaskImages) -> None:
        """What the weights of now say of old classes is the target."""
        if self.memory.order:
            self.before = model.theta.clone() if self.before is None else self.before.copy_(model.theta)

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw exemplars of earlier tasks, and tell the device which columns are the task's, once a task."""
        heads, task = model.heads, batch.task
        if self.own is None or self.own[0] != task:
            columns = np.isin(np.arange(heads.outputs), heads.task_columns[task])
            self.own = task, to_device(columns, batch.y.device)
        self.drawn = self.memory.draw(batch.task, self.count)

    def kind(self) -> bool:
        """Whether this is the first task, which has no old classes."""
        return self.before is None

    def replay(self) -> Replay | None:
        """The images drawn from memory for this step."""
        return self.drawn

    def terms(self, model: Replicas, labelled: Labelled) -> Terms:
        """The terms that put the binary cross entropy in the place of the ordinary one."""
        heads, batch, task = model.heads, labelled.batch, labelled.batch.task
        x, y, tasks = batch.x, batch.y, batch.each_task
        if self.drawn is not None:
            more = self.drawn.x, self.drawn.y, self.drawn.tasks
            x, y, tasks = (torch.cat(both, 1) for both in zip((x, y, tasks), more, strict=True))
        target = one_hot(heads.classes(y, tasks), heads.outputs).to(x)
        if self.before is not None and self.own is not None:
            with torch.no_grad():
                old = model.everything(x, statistics="separate", theta=self.before).z
            target = torch.where(self.own[1], target, old.sigmoid())
        outputs, so_far = labelled.outputs.detach(), heads.seen_by[task]
        z, goal = outputs[..., :so_far], target[..., :so_far]
        loss = binary_cross_entropy_with_logits(z, goal, reduction="none").mean((1, 2))
        slope = (z.sigmoid() - goal) / (z.shape[1] * so_far)
        ordinary = cross_entropy(heads.columns_at(outputs, tasks, task), y)[1]
        slopes = pad(slope, (0, heads.outputs - so_far)) - heads.at_outputs(ordinary, outputs, tasks, task)
        return Terms(outputs=slopes, metrics={"sigmoid_loss": loss}, watched=True)

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """Choose exemplars of the task's classes."""
        self.memory.write(exemplars(model, images, self.memory.rings[images.task]))

    def scorer(self, model: Replicas) -> Scorer | None:
        """Nearness to the mean direction of each class's exemplars; classes without any are all equally far."""
        heads, order = model.heads, self.memory.order
        if not order:
            return lambda x: x.new_zeros(*x.shape[:2], heads.logits)
        known = self.memory.all_of(*order)
        member = one_hot(heads.classes(known.y, known.tasks), heads.logits).to(model.theta)
        means = direction(member.mT @ directions(model, known.x))
        met = member.any(1, keepdim=True)

        def score(x: Tensor) -> Tensor:
            away = torch.cdist(directions(model, x), means, compute_mode="donot_use_mm_for_euclid_dist")
            return met / (1 + away)

        return score


def _build(table: OriginalIcarlSpec, context: Context) -> OriginalIcarl:
    return OriginalIcarl(ClassMemory(context.model.heads, table.memory, seeds=context.seeds), table.replay)


ENTRY = learner_entry(
    OriginalIcarlSpec,
    _build,
    "iCaRL (original)",
    "replayed images join the labelled pass, which has one more forward pass; memory images a task",
    "unmixed",
    "features",
    "own-scores",
    "new-classes",
    "past-tasks",
    recalled=lambda table, past, batch: (table.replay, 0),
)
