"""LUCIR: a cosine classifier, features that keep their direction, and a margin between old and new classes."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import one_hot

from gradcast.core import Batch, Labelled, Learner, Replay, TaskImages, Terms
from gradcast.devices import to_device
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.learners.herding import CHUNK, exemplars
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import TaskMemoryTable
from gradcast.memories.by_class import ClassMemory
from gradcast.networks.cosine import direction, with_cosine_head
from gradcast.randomness import numpy_generator
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import Natural, Rate, Weight

RIVALS = 2  # new classes that an old image's own class is held above


class LucirSpec(TaskMemoryTable):
    """LUCIR: cosine classifier, distillation of features, margin ranking, herding exemplars."""

    name: Literal["lucir"]
    lr: Rate = 0.03
    decay: Weight = 5e-4  # weight decay of SGD
    distil: Weight = 5.0  # weight of the features' distance, times the root of old over new classes
    margin: Weight = 0.5  # between cosines
    ranking: Weight = 1.0  # weight of the margin's loss
    finetune: Natural = 1  # passes through the memory at a task's end that train the classifier alone
    finetune_lr: Rate = 0.01  # learning rate of these passes


@dataclass
class Lucir(Learner):
    """``CE + lambda (1 - cos(phi_old, phi)) + ranking * max(0, margin - cos_own + cos_new)``, each a mean over images.

    ``phi`` are features, ``phi_old`` those of the weights before the task, and ``lambda = distil * sqrt(old / new)``
    classes. The third term is of replayed images, for the two new classes of largest cosine. The classifier's weights
    of old classes have learning rate 0; those of new ones begin as the mean direction of their features.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("memory", "before")
    wants_features: ClassVar[bool] = True
    memory: ClassMemory
    seeds: Sequence[int]
    count: int = 10  # replayed a step
    batch: int = 10  # images a step of the fine-tuning
    distil: float = 5.0
    margin: float = 0.5
    ranking: float = 1.0
    epochs: int = 1
    lr: float = 0.01  # of the fine-tuning
    before: Float[Tensor, "r p"] | None = field(default=None, init=False)  # weights before this task
    drawn: Replay | None = field(default=None, init=False)
    held: int | None = field(default=None, init=False)  # the task that learning rates are set for
    rates: Float[Tensor, " p"] | None = field(default=None, init=False)  # factors on them, without that of old classes

    def task_begins(self, model: Replicas, images: TaskImages) -> None:
        """The features of now are the distillation target, and they give new classes their weights."""
        if self.memory.order:
            self.before = model.theta.clone() if self.before is None else self.before.copy_(model.theta)
            self._imprint(model, images)

    @torch.no_grad()
    def _imprint(self, model: Replicas, images: TaskImages) -> None:
        """The mean direction of a new class's features, as long as the weights of old classes are on average."""
        heads, new = model.heads, model.heads.new_columns(images.task)
        weight = self._classifier(model)
        total, count = torch.zeros_like(weight), torch.zeros_like(weight[..., :1])
        for batch in images.batches(CHUNK):
            features = direction(model.embed(batch.x, statistics="frozen").z)
            member = one_hot(heads.classes(batch.y, batch.each_task), heads.outputs).to(features)
            total += member.mT @ features
            count += member.sum(1).unsqueeze(-1)
        length = weight[:, : new.start].norm(dim=-1).mean(1).view(-1, 1, 1)
        made = torch.where(count > 0, length * direction(total), weight)
        weight[:, new] = made[:, new]

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw exemplars of earlier tasks; in a task's first step, hold the weights of old classes."""
        self.drawn = self.memory.draw(batch.task, self.count)
        if self.held != batch.task:
            self.held = batch.task
            self._hold(model, batch.task)

    def _hold(self, model: Replicas, task: int) -> None:
        if self.rates is None:
            self.rates = torch.ones_like(model.theta[0]) if model.rates is None else model.rates.clone()
            model.rates = self.rates.clone()
        assert model.rates is not None
        model.rates.copy_(self.rates)
        self._classifier(model, model.rates)[: model.heads.new_columns(task).start] = 0

    def kind(self) -> Hashable:
        """Whether there is anything to keep."""
        return self.before is None

    def replay(self) -> Replay | None:
        """The images drawn from memory for this step."""
        return self.drawn

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """Distance of the features and margin of the exemplars; nothing in the first task."""
        if self.before is None or self.drawn is None or labelled.features is None:
            return None
        task, size, heads = labelled.batch.task, labelled.batch.y.shape[1], model.heads
        x = torch.cat([labelled.batch.x, self.drawn.x], 1)
        with torch.no_grad():
            old = model.embed(x, statistics="separate", theta=self.before).z
        features, outputs = (each.detach().requires_grad_() for each in (labelled.features, labelled.outputs))
        weight = self.distil * sqrt(heads.new_columns(task).start / len(heads.task_columns[task]))
        scale = self._scale(model)
        with torch.enable_grad():
            away = weight * (1 - (direction(old) * direction(features)).sum(-1)).mean(1)
            ranked = self._ranked(outputs[:, size:] / scale, self.drawn, model, task)
            slopes = torch.autograd.grad((away + ranked).sum(), [features, outputs], allow_unused=True)
        metrics = {"distillation": away.detach(), "ranking": ranked.detach()}
        if slopes[1] is None:
            return Terms(features=slopes[0], metrics=metrics)
        flat = torch.zeros_like(model.theta)  # cosines do not depend on the scale, as outputs do
        self._scale(model, flat).copy_(-(slopes[1] * outputs.detach()).sum((1, 2), keepdim=True) / scale)
        return Terms(Gradient(flat), slopes[1], slopes[0], metrics)

    def _ranked(self, cosines: Float[Tensor, "r m c"], drawn: Replay, model: Replicas, task: int) -> Tensor:
        """How far exemplars are from their margin; 0 where no class is new."""
        new = cosines[..., model.heads.new_columns(task)]
        if not new.shape[-1]:
            return cosines.new_zeros(len(cosines))
        own = cosines.gather(-1, model.heads.classes(drawn.y, drawn.tasks).unsqueeze(-1))
        rivals = new.topk(min(RIVALS, new.shape[-1]), dim=-1).values
        return self.ranking * (self.margin - own + rivals).relu().mean((1, 2))

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """Choose exemplars of the task's classes; from the second task on, fine-tune the classifier on all."""
        self.memory.write(exemplars(model, images, self.memory.rings[images.task]))
        if self.before is not None and self.epochs:
            self._finetune(model, images.task)

    def _finetune(self, model: Replicas, task: int) -> None:
        """Steps on the exemplars of all tasks so far that move the weights of classes alone; features stay."""
        known = self.memory.all_of(*self.memory.order)
        x, y, tasks = known.x, known.y, known.tasks
        draws = [numpy_generator(seed, "finetune", task) for seed in self.seeds]
        free, every = torch.zeros_like(model.theta), torch.arange(model.count, device=x.device).unsqueeze(1)
        self._classifier(model, free).fill_(self.lr)
        for _ in range(self.epochs):
            order = to_device(np.stack([draw.permutation(y.shape[1]) for draw in draws]), x.device)
            for rows in order.split(self.batch, 1):
                made = model.forward(x[every, rows], task, tasks=tasks[every, rows], statistics="frozen")
                model.theta -= free * made.pull(cross_entropy(made.z, y[every, rows])[1]).flat

    def _classifier(self, model: Replicas, theta: Tensor | None = None) -> Float[Tensor, "*r c f"]:
        """The weights of every class: a view."""
        return model.parameters(model.theta if theta is None else theta)[f"{model.featured.name}.weight"]

    def _scale(self, model: Replicas, theta: Tensor | None = None) -> Float[Tensor, "r 1 1"]:
        """The scale of the cosines: a view."""
        found = model.parameters(model.theta if theta is None else theta)[f"{model.featured.name}.scale"]
        return found.unsqueeze(-1)


def _build(table: LucirSpec, context: Context) -> Lucir:
    memory = ClassMemory(context.model.heads, table.memory, seeds=context.seeds)
    values = table.distil, table.margin, table.ranking, table.finetune, table.finetune_lr
    return Lucir(memory, context.seeds, table.replay, context.batch, *values)


def _adapt(table: LucirSpec, network: nn.Module, outputs: int) -> nn.Module:
    return with_cosine_head(network, outputs)


ENTRY = learner_entry(
    LucirSpec,
    _build,
    "LUCIR",
    "replayed images join the labelled pass, which has one more forward pass; memory images a task",
    "unmixed",
    "features",
    "new-classes",
    "past-tasks",
    adapt=_adapt,
    recalled=lambda table, past, batch: (table.replay, 0),
)
