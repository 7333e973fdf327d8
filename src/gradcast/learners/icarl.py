"""iCaRL: exemplars of past classes keep their outputs, and the nearest mean of exemplars is the answer."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from gradcast.core import Batch, Labelled, Learner, Replay, Scorer, TaskImages, Terms
from gradcast.gradients.gradient import Gradient
from gradcast.learners.herding import ALL, batch_statistics, herd
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import DescentTable
from gradcast.memories.exemplars import OUTPUTS, Exemplars, Run
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate, Weight

CHUNK = 256  # exemplars a pass, where their means are taken
Form = Literal["corrected", "released"]


class IcarlSpec(DescentTable):
    """iCaRL: herding, distillation on exemplars, and classification by the nearest class mean."""

    name: Literal["icarl"]
    lr: Rate = 1.0
    memory: Positive = 1280  # exemplars that all classes so far would share; sets of earlier classes are not shrunk
    distil: Weight = 1.0  # weight of the distillation
    form: Form = "corrected"  # released: softmax over the exemplars, draws up to the size of the newest sets
    batchnorm: Statistics = "update"  # what the exemplars' passes do to BatchNorm statistics


@dataclass
class Icarl(Learner):
    """Adds ``weight`` times the sum over past tasks of a mean divergence from the outputs at the last task's end.

    The mean is over one random exemplar of each class of a past task. Its distributions are over the task's own columns
    (``masked`` heads), or over those of all earlier tasks where classes of all tasks compete. ``over_batch``: they are
    over the exemplars instead, column by column.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("memory",)
    memory: Exemplars
    weight: float = 1.0
    over_batch: bool = False
    batchnorm: Statistics = "update"
    drawn: Replay | None = field(default=None, init=False)
    runs: list[Run] = field(default_factory=list, init=False)  # how what was drawn belongs to tasks
    known: int = field(default=0, init=False)  # tasks that these runs are of

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """Choose exemplars of the task's classes, then keep what the network says of all exemplars."""
        batch = next(images.batches(ALL))
        chosen = [self._herd(model, replica, batch) for replica in range(model.count)]
        self.memory.write(images.task, chosen, model.heads.outputs)
        outputs = []
        for replica, module in enumerate(model.modules):
            with batch_statistics(module, self.batchnorm):
                outputs.append([module(x) for x in self.memory.images(replica)])
        self.memory.keep_outputs(outputs)

    def _herd(self, model: Replicas, replica: int, batch: Batch) -> list[Float[Tensor, "chosen *shape"]]:
        """One replica's exemplars of every class of the batch's task, by its outputs in the columns of that task."""
        heads, task, module = model.heads, batch.task, model.modules[replica]
        places = torch.where(batch.each_task == task, heads.places(batch.y, task), -1)[replica]
        own = batch.y.new_tensor(task)
        with batch_statistics(module, self.batchnorm):
            return [
                herd(lambda x: heads.own(module(x), own), batch.x[replica, places == place], self.memory.shares[task])
                for place in range(self.memory.widths[task])
            ]

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw one exemplar of every past class."""
        self.drawn = self.memory.draw()
        if self.known != self.memory.done:
            self.runs, self.known = self.memory.runs(batch.x.device), self.memory.done

    def kind(self) -> Hashable:
        """Whether there is anything to distil."""
        return self.drawn is None

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """The distillation; there is none in the first task. Past tasks with equally many classes pass together."""
        if self.drawn is None:
            return None
        task, flat, losses = labelled.batch.task, torch.zeros_like(model.theta), list[Tensor]()

        def slope(z: Tensor, then: Tensor) -> Tensor:
            loss, dz = self._distil(model.heads, z, then, task)
            losses.append(loss)
            return dz

        for run in self.runs:
            stored = model.heads.columns_at(run.of(self.drawn.fields[OUTPUTS]), run.tasks.unsqueeze(1), task)
            x = run.of(self.drawn.x)
            flat += model.recall(x, stored, run.tasks, task=task, slope=slope, statistics=self.batchnorm).rows().sum(1)
        return Terms(Gradient(flat), metrics={"distillation": torch.cat(losses, 1).sum(1)})

    def _distil(
        self, heads: Heads, z: Float[Tensor, "r k m c"], then: Float[Tensor, "r k m c"], task: int
    ) -> tuple[Float[Tensor, "r k"], Float[Tensor, "r k m c"]]:
        """The weighed divergence of each past task's exemplars from their stored outputs, and its gradient."""
        past = z.shape[-1] if heads.masked else heads.seen_by[task - 1]  # later columns have not been trained
        logs, before = (each[..., :past].log_softmax(-2 if self.over_batch else -1) for each in (z, then))
        scale, p = self.weight / z.shape[-2], before.exp()
        return scale * (p * (before - logs)).sum((-2, -1)), pad(scale * (logs.exp() - p), (0, z.shape[-1] - past))

    def scorer(self, model: Replicas) -> Scorer | None:
        """Nearness to the mean output of each class's exemplars; classes without any are all equally far."""
        if not self.memory.done:
            return lambda x: x.new_zeros(*x.shape[:2], model.heads.logits)
        members = self.memory.members(model.theta.device).to(model.theta.dtype)
        x, count = self.memory.filled["x"], members.sum(1).unsqueeze(-1)
        outputs = torch.cat([_logits(model, part) for part in x.split(CHUNK, 1)], 1)
        means = members.transpose(1, 2) @ outputs / count.clamp_min(1)

        def score(x: Tensor) -> Tensor:
            away = torch.cdist(_logits(model, x), means, compute_mode="donot_use_mm_for_euclid_dist")
            return (count > 0).transpose(1, 2) / (1 + away)

        return score


@torch.no_grad()
def _logits(model: Replicas, x: Float[Tensor, "r n *shape"]) -> Float[Tensor, "r n logits"]:
    """All logits of these images, in evaluation mode."""
    return model.everything(x, statistics="frozen").z[..., : model.heads.logits]


def _build(table: IcarlSpec, context: Context) -> Icarl:
    released = table.form == "released"
    memory = Exemplars(context.model.heads, table.memory, seeds=context.seeds, latest=released)
    return Icarl(memory, table.distil, released, table.batchnorm)


ENTRY = learner_entry(
    IcarlSpec,
    _build,
    "iCaRL",
    "a pass of one exemplar of every past class in each step, many at a task's end; memory images of all classes",
    "own-scores",
    "past-tasks",
    recalled=lambda table, past, batch: (past * batch, past),
)
