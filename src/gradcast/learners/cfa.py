"""CFA: each task trains a teacher, and a student learns from it and from the old student, on exemplars alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradcast.core import Batch, Learner, TaskImages
from gradcast.devices import to_device
from gradcast.learners.amalgamation import Amalgamation
from gradcast.learners.common_space import CommonSpace
from gradcast.learners.herding import ALL, rows_by_class
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import TaskMemoryTable
from gradcast.memories.by_class import ClassMemory
from gradcast.randomness import numpy_generator
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import EpochCount, Positive, Probability, Rate, Weight
from gradcast.training.capture import fastest

CHUNK = 256  # images a pass, where nothing is trained


class CfaSpec(TaskMemoryTable):
    """Knowledge amalgamation: a student learns from a new teacher and the old student, without labels."""

    name: Literal["cfa"]
    lr: Rate = 0.03  # of the teacher
    replay: Positive = 10  # exemplars a step of the amalgamation
    epochs: EpochCount = 5  # passes of the amalgamation through the memory
    amalgamation_lr: Rate = 1e-4  # of Adam; the output layer and the common space have ten times as much
    alpha: Probability = 0.5  # share of the outputs' loss; the rest is that of features
    beta: Weight = 1.0  # weight of the teachers' decoded features


@dataclass
class Cfa(Learner):
    """``alpha KL(concat || student) + (1 - alpha) 10 [sum_i KL(h_i || h) + beta sum_i MSE(decoded h_i, features_i)]``.

    The steps of a task train the teacher, which begins as a copy of the student, on the task's own classes. When the
    task ends, the student goes back to where it was before and learns from both: ``concat`` are the teacher's logits of
    the task's classes and the old student's of all other classes so far.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("memory", "before", "old_statistics")
    replaces_weights: ClassVar[bool] = True
    memory: ClassMemory
    seeds: Sequence[int]
    count: int = 10  # exemplars a step of the amalgamation
    epochs: int = 5
    lr: float = 1e-4
    alpha: float = 0.5
    beta: float = 1.0
    before: Float[Tensor, "r p"] | None = field(default=None, init=False)  # the student, while a teacher trains
    old_statistics: dict[str, Tensor] = field(default_factory=dict, init=False)  # its buffers
    own: dict[int, Bool[Tensor, "r c"]] = field(default_factory=dict, init=False)  # columns of a task's classes

    def task_begins(self, model: Replicas, images: TaskImages) -> None:
        """From now on the model is the teacher; the first task has no student yet."""
        if self.memory.order:
            self.before = model.theta.clone()
            self.old_statistics = {name: buffer.clone() for name, buffer in model.buffers.items()}

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Tell the device which columns are the task's, once a task."""
        heads, task = model.heads, batch.task
        if not heads.masked and task not in self.own:
            columns = np.isin(np.arange(heads.width), heads.task_columns[task])
            self.own = {task: to_device(columns, batch.y.device).expand(model.count, -1)}

    def competing(self, model: Replicas, batch: Batch) -> Bool[Tensor, "r c"] | None:
        """The task's own classes, with every kind of heads: a teacher knows no others."""
        return None if model.heads.masked else self.own[batch.task]

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """Choose exemplars by the teacher's features; from the second task on, amalgamate."""
        batch = next(images.batches(ALL))
        features = _answers(model, batch.x)[..., : model.featured.width]
        rows = rows_by_class(model.heads, batch, self.memory.rings[batch.task], features, nearest)
        every = torch.arange(model.count, device=rows.device).unsqueeze(1)
        self.memory.write(Batch(batch.x[every, rows], batch.y[every, rows], batch.task))
        if self.before is not None:
            self._amalgamate(model, batch.task)

    def _amalgamate(self, model: Replicas, task: int) -> None:
        """The student, from the weights before the task; its BatchNorm statistics follow the exemplars."""
        x, width = self.memory.all_of(*self.memory.order).x, model.featured.width
        new = _answers(model, x)
        self._go_back(model)
        old = _answers(model, x)
        label = concatenated(old[..., width:], new[..., width:], model.heads.task_columns[task])
        teachers, space = (old[..., :width], new[..., :width]), CommonSpace(width, self.seeds, task, model.theta)
        advance = fastest(Amalgamation(model, space, label, teachers, self.lr, self.alpha, self.beta))
        every = torch.arange(model.count, device=x.device).unsqueeze(1)
        model.chance.begin(f"amalgamation {task}")
        for rows in self._orders(x, task):
            advance(Batch(x[every, rows], rows, task), ())

    @torch.no_grad()
    def _go_back(self, model: Replicas) -> None:
        assert self.before is not None
        model.theta.copy_(self.before)
        for name, buffer in model.buffers.items():
            buffer.copy_(self.old_statistics[name])
        self.before, self.old_statistics = None, {}

    def _orders(self, x: Float[Tensor, "r n *shape"], task: int) -> Iterator[Int[Tensor, "r b"]]:
        """Places of each batch, epoch by epoch; what would not fill a batch is left out of the epoch."""
        draws = [numpy_generator(seed, "amalgamation", task) for seed in self.seeds]
        whole = x.shape[1] // self.count * self.count
        for _ in range(self.epochs):
            order = np.stack([draw.permutation(x.shape[1])[:whole] for draw in draws])
            yield from to_device(order, x.device).split(self.count, 1)


def concatenated(
    old: Float[Tensor, "r n c"], new: Float[Tensor, "r n c"], columns: Sequence[int]
) -> Float[Tensor, "r n c"]:
    """The teacher's outputs in the columns of its task, returning classes included; the old student's elsewhere."""
    own = torch.tensor(columns, device=old.device)
    return old.index_copy(-1, own, new.index_select(-1, own))


def nearest(features: Float[Tensor, "n f"], count: int) -> Int[Tensor, " chosen"]:
    """Places of at most so many rows, those nearest to the mean of all first; two are equally far from theirs."""
    if len(features) < 3:
        return torch.arange(len(features), device=features.device)[:count]
    away: Tensor = (features - features.mean(0)).norm(dim=1)
    return away.argsort(stable=True)[:count]


@torch.no_grad()
def _answers(model: Replicas, x: Float[Tensor, "r n *shape"]) -> Float[Tensor, "r n columns"]:
    """Features, then outputs, in evaluation mode."""
    return torch.cat([model.embed(part, statistics="frozen").whole for part in x.split(CHUNK, 1)], 1)


def _build(table: CfaSpec, context: Context) -> Cfa:
    memory = ClassMemory(context.model.heads, table.memory, seeds=context.seeds)
    values = table.replay, table.epochs, table.amalgamation_lr, table.alpha, table.beta
    return Cfa(memory, context.seeds, *values)


ENTRY = learner_entry(
    CfaSpec,
    _build,
    "CFA",
    "many steps on the memory at a task's end, none before; memory images a task, one more copy of the weights",
    "unmixed",
    "features",
    "new-classes",
    "past-tasks",
    "replaces-weights",
)
