"""Hard attention to the task: what earlier tasks use is protected from what later ones learn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Labelled, Learner, Terms
from gradcast.data.images import ImageShape
from gradcast.devices import to_device
from gradcast.gradients.gradient import Gradient
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import LearnerTable
from gradcast.networks.hat_network import (
    FACTOR,
    REACH,
    STEEPEST,
    HatNetwork,
    compensated,
    free_share,
    gates,
    regulariser,
    slope,
)
from gradcast.networks.registry import AlexNetSpec, ModelTable
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import Rate, Weight
from gradcast.training.task_modules import TaskModules

EMBEDDINGS, LAYERS = "embeddings.", "layers."  # beginnings of the names of weights


class HatSpec(LearnerTable):
    """Hard attention to the task; gates behind every layer of ``model``."""

    name: Literal["hat"]
    lr: Rate = 0.05
    steepest: Rate = STEEPEST  # slope of the gates at the end of an epoch
    sparsity: Weight = FACTOR  # weight of the units that a task takes
    clip: Rate = 10_000.0  # longest gradient


@dataclass
class Hat(Learner):
    """Steps with a slope that rises through every epoch; ``modules`` has those of earlier tasks.

    Embeddings follow the body's weights in ``theta``; of those of all layers one row a replica is made.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("task", "steps")
    batches: Callable[[int], int]  # batches of an epoch of a task
    modules: TaskModules  # embeddings and head of every task
    steepest: float = STEEPEST
    sparsity: float = FACTOR
    clip: float = 10_000.0
    task: int = field(default=-1, init=False)
    steps: int = field(default=0, init=False)  # of the task
    model: Replicas | None = field(default=None, init=False)  # of the step under way
    used: Float[Tensor, "r u"] | None = field(default=None, init=False)  # the largest gates of earlier tasks
    free: Float[Tensor, "r p"] | None = field(default=None, init=False)  # what gradients are multiplied with

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Set the slope; before a task's first step, find what is left for it."""
        if batch.task != self.task:
            self.task, self.steps, self.used = batch.task, 0, None
        if self.used is None:
            self._protect(model)
        batches = self.batches(batch.task)
        s = slope(self.steps % batches, batches, self.steepest)
        self.steps += 1
        slopes = torch.full((model.count,), s, dtype=model.theta.dtype)
        model.buffers["slope"].copy_(to_device(slopes, model.theta.device))

    def terms(self, model: Replicas, labelled: Labelled) -> Terms:
        """The regulariser's gradient reaches embeddings alone."""
        s = model.buffers["slope"].unsqueeze(1)
        now = gates(self._embeddings(model), s)
        assert self.used is not None
        loss, slopes = regulariser(now, self.used, self.sparsity)
        flat = torch.zeros_like(model.theta)
        flat[:, self._place(model)] = slopes * s * now * (1 - now)
        return Terms(Gradient(flat), metrics={"regulariser": loss})

    def penalty(self, model: Replicas) -> Float[Tensor, " r"]:
        """At the steepest slope."""
        if self.used is None:
            self._protect(model)
        assert self.used is not None
        return regulariser(gates(self._embeddings(model), self.steepest), self.used, self.sparsity)[0]

    def task_modules(self) -> TaskModules:
        """Modules of each task's own: embeddings and heads."""
        return self.modules

    def constrain(self, gradient: Gradient) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
        """Protect, compensate, and clip to the longest gradient."""
        assert self.free is not None
        assert self.model is not None
        place, s = self._place(self.model), self.model.buffers["slope"].unsqueeze(1)
        flat = gradient.flat * self.free
        flat[:, place] = compensated(flat[:, place], self._embeddings(self.model), s, self.steepest)
        length = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
        changed = torch.full_like(length[:, 0], self.task > 0, dtype=torch.bool)
        return flat * (self.clip / (length + 1e-6)).clamp_max(1), changed

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Whose gradient comes to be constrained."""
        self.model = model

    def end(self, model: Replicas) -> None:
        """Beyond their reach gates hardly move; evaluations see the steepest."""
        model.theta[:, self._place(model)].clamp_(-REACH, REACH)
        model.buffers["slope"].fill_(self.steepest)

    def _protect(self, model: Replicas) -> None:
        """``1 - min(a_i, a_j)`` for every weight of the body, ones for the rest."""
        place = self._place(model)
        units = place.stop - place.start
        earlier = [gates(own[:, :units], self.steepest) for own in self.modules.own]
        self.used = torch.stack([torch.zeros_like(model.theta[:, place]), *earlier]).amax(0)
        free = torch.ones_like(model.theta)
        sizes = [size for name, size in zip(model.names, model.sizes, strict=True) if name.startswith(EMBEDDINGS)]
        views = model.parameters(free)
        for replica, row in enumerate(self.used):
            inputs: Tensor | None = None
            for layer, after in enumerate(row.split(sizes)):
                weight, bias = (views[f"{LAYERS}{layer}.{kind}"][replica] for kind in ("weight", "bias"))
                weight.copy_(free_share(after, inputs, weight).expand_as(weight))
                bias.copy_(1 - after)
                inputs = after
        self.free = free if self.free is None else self.free.copy_(free)

    def _embeddings(self, model: Replicas) -> Float[Tensor, "r u"]:
        return model.theta[:, self._place(model)]

    def _place(self, model: Replicas) -> slice:
        own = [model.places[name] for name in model.names if name.startswith(EMBEDDINGS)]
        return slice(own[0].start, own[-1].stop)


def _build(table: HatSpec, context: Context) -> Hat:
    modules = context.modules(shared=LAYERS, purpose="hat")
    return Hat(context.epoch, modules, steepest=table.steepest, sparsity=table.sparsity, clip=table.clip)


def _network(table: HatSpec, model: ModelTable, shape: ImageShape, width: int, tasks: int) -> HatNetwork:
    assert isinstance(model, AlexNetSpec)  # compatibility sees to that
    widths = [*model.widths, model.latent]
    return HatNetwork(width, shape=shape, channels=model.channels, widths=widths, steepest=table.steepest)


def _heads(table: HatSpec, model: ModelTable, width: int, tasks: int) -> Heads:
    return Heads.even(width, tasks)  # the task's own


ENTRY = learner_entry(
    HatSpec,
    _build,
    "HAT",
    "nothing beyond a plain step; gates and a head a task",
    "own-network",
    "task-modules",
    "one-head",
    network=_network,
    heads=_heads,
    models=("alexnet-like",),
)
