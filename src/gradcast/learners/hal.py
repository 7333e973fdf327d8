"""Hindsight anchor learning: replay, and anchors whose outputs a step must not change."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity

from gradcast.core import Batch, Labelled, Learner, Replay, TaskImages, Terms
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.optimizer import AdamW
from gradcast.gradients.sgd import LearningRate, Sgd, along
from gradcast.learners.hindsight import Ascent, RunningMeans, stretched
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import TaskMemoryTable
from gradcast.memories.by_class import ClassMemory
from gradcast.memories.reservoir import Reservoir
from gradcast.randomness import numpy_generator, torch_generator
from gradcast.replicas.replicas import Pass, Replicas, Statistics
from gradcast.specs.context import Context
from gradcast.specs.table import Momentum, Positive, Rate, Weight

Form = Literal["authors", "mammoth"]
SAMPLED = 10  # anchors of a step, in the authors' form; the other takes all
PROXY = {"authors": 50, "mammoth": 1}  # batches of memory images that stand for what the future forgets
ADAM = 1e-3  # learning rate of the authors' anchors
IMAGE_DECAY = 0.9  # of a class's mean image
ALL = 2**62  # images: more than a task has
EVERY_TASK = -1  # no task is left out


class HalSpec(TaskMemoryTable):
    """Hindsight anchor learning: replay, and one image a class whose outputs a step must not change."""

    name: Literal["hal"]
    lr: Rate = 0.03
    replay: Positive = 10  # samples replayed a step; of which tasks, form says
    weight: Weight = 0.1  # of the anchors' squared distance: lambda
    gamma: Weight = 0.1  # of an anchor's distance from the mean features
    beta: Momentum = 0.5  # decay of the mean features; 0.3 was used on CIFAR
    form: Form = "authors"  # mammoth: the common re-implementation
    batchnorm: Statistics = "separate"  # what passes of anchors do to BatchNorm statistics


@dataclass
class Hal(Learner):
    """Adds ``weight * ||f_w(e) - f_w~(e)||^2``, with w~ after a tentative step along the loss of batch and replay.

    ``authors``: a mean over at most ten random anchors e of the sum over the logits that a loss of their task sees.
    ``mammoth``: a mean over all anchors and all columns of the output layer; images of the present task are replayed
    too.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("memory", "anchors", "phi", "image")
    wants_features: ClassVar[bool] = True
    memory: ClassMemory
    seeds: Sequence[int]
    count: int = 10
    lr: float = 0.03  # of the steps that stand for forgetting
    weight: float = 0.1
    gamma: float = 0.1
    beta: float = 0.5
    form: Form = "authors"
    batchnorm: Statistics = "separate"
    anchors: Reservoir = field(init=False)  # has room for all
    phi: RunningMeans = field(init=False)  # of features: by class, or of all
    image: RunningMeans = field(init=False)  # of images, by class
    task: int = field(default=0, init=False)  # of the step
    drawn: Replay | None = field(default=None, init=False)
    held: Replay | None = field(default=None, init=False)  # anchors of the step

    def __post_init__(self) -> None:
        self.anchors = Reservoir(sum(map(len, self.memory.heads.task_columns)), self.seeds)
        self.phi, self.image = RunningMeans(self.beta), RunningMeans(IMAGE_DECAY)

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw images of memory and anchors, and write the batch into memory."""
        self.task, self.drawn = batch.task, self._remembered(batch.task)
        known = int(self.anchors.held.min())  # all replicas have equally many
        self.held = self.anchors.draw(min(known, SAMPLED) if self.form == "authors" else known)
        if (fresh := batch.fresh) is not None:
            self.memory.write(fresh)

    def kind(self) -> Hashable:
        """Whether there are anchors."""
        return self.held is None

    def _remembered(self, task: int) -> Replay | None:
        """Random images of earlier tasks, or in the other form of all, this one included."""
        return self.memory.draw(task if self.form == "authors" else EVERY_TASK, self.count)

    def replay(self) -> Replay | None:
        """The images drawn from memory for this step."""
        return self.drawn

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """No terms yet; the means of features and images follow the batch."""
        batch, task = labelled.batch, labelled.batch.task
        assert labelled.features is not None
        own = batch.each_task == task
        places = torch.where(own, model.heads.places(batch.y, task), -1)
        member = (places.unsqueeze(-1) == torch.arange(model.heads.widest, device=places.device)).to(batch.x.dtype)
        going = labelled.lr.unsqueeze(1) > 0 if isinstance(labelled.lr, Tensor) else None
        features = labelled.features[:, : batch.y.shape[1]]
        self.phi.follow(features, member if self.form == "authors" else member.sum(-1, keepdim=True), going)
        self.image.follow(batch.x.flatten(2), member, going)
        return None

    def lookahead(self, model: Replicas, gradient: Gradient, lr: LearningRate) -> Terms | None:
        """The anchors' term, from the weights that the gradient of batch and replay would lead to."""
        if self.held is None:
            return None
        flat = gradient.flat if model.rates is None else gradient.flat * model.rates
        tentative = model.theta - along(lr, flat) * flat
        now = self._pass(model, self.held, self.batchnorm)
        with torch.no_grad():
            away = now.z - self._pass(model, self.held, self.batchnorm, theta=tentative).z
        share = self.weight / (away.shape[1] if self.form == "authors" else away[0].numel())
        return Terms(now.pull(2 * share * away), metrics={"anchors": share * away.square().sum((1, 2))})

    def _pass(self, model: Replicas, anchors: Replay, statistics: Statistics, theta: Tensor | None = None) -> Pass:
        """Logits that a loss of each anchor's task sees, or all columns; absent ones do not differ."""
        if self.form == "mammoth":
            return model.everything(anchors.x, statistics=statistics, theta=theta)
        return model.forward(anchors.x, self.task, tasks=anchors.tasks, statistics=statistics, theta=theta)

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """Make an anchor of every class of the task; means begin anew."""
        batch, task = next(images.batches(ALL)), images.task
        width = len(model.heads.task_columns[task])
        y = model.heads.labels(torch.arange(width, device=batch.y.device).expand(model.count, -1), task)
        if self.form == "authors" and len(self.memory.order) == 1:
            made = self._real(model, batch, width)
        else:
            made = self._ascended(model, batch, y)
        self.anchors.write(Batch(made, y.contiguous(), task))
        self.phi.forget()
        self.image.forget()

    def _real(self, model: Replicas, batch: Batch, width: int) -> Float[Tensor, "r k *shape"]:
        """A random image of every class."""
        places = torch.where(batch.each_task == batch.task, model.heads.places(batch.y, batch.task), -1).cpu().numpy()
        chosen = []
        for seed, own in zip(self.seeds, places, strict=True):
            order = numpy_generator(seed, "anchors", batch.task).permutation(len(own))
            chosen.append(np.stack([order[(own[order] == place).argmax()] for place in range(width)]))
        return torch.stack([x[torch.from_numpy(own).to(x.device)] for x, own in zip(batch.x, chosen, strict=True)])

    def _ascended(self, model: Replicas, batch: Batch, y: Int[Tensor, "r k"]) -> Float[Tensor, "r k *shape"]:
        """What would be forgotten first; ``low`` and ``high`` are the range of the task's images."""
        assert self.phi.value is not None
        assert self.image.value is not None
        width, shape = y.shape[1], batch.x.shape[2:]
        low, high = (each.view(-1, 1, *[1] * len(shape)) for each in batch.x.flatten(1).aminmax(dim=1))
        proxy, phi = self._proxy(model, batch.task), self.phi.value[:, :width].expand(-1, width, -1)
        if self.form == "authors":
            start = self.image.value[:, :width].unflatten(-1, shape)
            found = Ascent(model, proxy, batch.task, self.gamma, _angle)(start, y, phi, AdamW(), ADAM)
            return low + (high - low) * stretched(found)
        noise = [torch.rand(width, *shape, generator=torch_generator(s, "anchors", batch.task)) for s in self.seeds]
        start = low + (high - low) * torch.stack(noise).to(batch.x)
        return Ascent(model, proxy, batch.task, self.gamma, _square)(start, y, phi, Sgd(), self.lr)

    def _proxy(self, model: Replicas, task: int) -> Float[Tensor, "r p"]:
        """The weights after further steps on images of memory."""
        theta = model.theta.clone()
        for _ in range(PROXY[self.form]):
            drawn = self._remembered(task)
            assert drawn is not None
            made = model.forward(drawn.x, task, tasks=drawn.tasks, statistics="separate", theta=theta)
            theta -= self.lr * made.pull(cross_entropy(made.z, drawn.y)[1]).flat
        return theta


def _angle(features: Tensor, phi: Tensor) -> Tensor:
    return 1 - cosine_similarity(features, phi, dim=-1)


def _square(features: Tensor, phi: Tensor) -> Tensor:
    return (features - phi).square().sum(-1)


def _build(table: HalSpec, context: Context) -> Hal:
    memory = ClassMemory(context.model.heads, table.memory, seeds=context.seeds)
    values = table.weight, table.gamma, table.beta, table.form, table.batchnorm
    return Hal(memory, context.seeds, table.replay, table.lr, *values)


ENTRY = learner_entry(
    HalSpec,
    _build,
    lambda table: "HAL" if table.form == "authors" else "HAL, mammoth's form",
    "replayed images join the labelled pass, two passes of anchors in each step; memory images a task, one a class",
    "unmixed",
    "features",
    recalled=lambda table, past, batch: (table.replay + (1 if table.form == "authors" else past) * SAMPLED, 0),
)
