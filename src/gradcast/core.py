"""The seams: what a batch is, what a learner may do to the gradient, what a signal may add to it.

One step, for R replicas at once (``R`` seeds of one configuration along the leading axis):

    prepare                      what the host decides: memories written, random numbers drawn
    learner.begin                the constraints of past tasks
    x, y, t -> logits -> loss    dL/dz and the flat gradient g, of images the learner replays too
    learner.terms                the learner's own terms of the loss add to it
    signal.learn                 the signal watches the labelled gradient
    signal.gradient              and turns unlabelled images into one more gradient
    learner.constrain            e.g. GEM's projection
    optimizer step
    learner.end

A signal only adds to g and a learner only rewrites g, so every learner takes every signal. Everything after
``prepare`` happens on the device and never waits for an answer from it, so that a GPU may replay it as one graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.gradients.sgd import LearningRate
from gradcast.replicas import Replicas, Statistics

Metrics = dict[str, Tensor]  # one number a replica, detached; only the store turns them into Python numbers


@dataclass(frozen=True)
class Batch:
    """Labelled images of one task, for every replica; ``y`` counts classes inside the task."""

    x: Float[Tensor, "r b *shape"]
    y: Int[Tensor, "r b"]
    task: int
    again: bool = False  # whether an earlier epoch of the task showed these images already: memories know them
    tasks: Int[Tensor, "r b"] | None = None  # the task of every image, where some are of earlier tasks

    @property
    def each_task(self) -> Int[Tensor, "r b"]:
        """The task of every image."""
        return torch.full_like(self.y, self.task) if self.tasks is None else self.tasks


@dataclass(frozen=True)
class Replay:
    """Images of earlier steps that join a labelled batch, each with its own task."""

    x: Float[Tensor, "r m *shape"]
    y: Int[Tensor, "r m"]
    tasks: Int[Tensor, "r m"]


@dataclass(frozen=True)
class Unlabelled:
    """Unlabelled images for every replica, and which replicas use theirs in this step.

    Several ``views`` of the same images lie one after another: image i of view v is ``x[:, v * images + i]``.
    """

    x: Float[Tensor, "r u *shape"]
    used: Bool[Tensor, " r"]
    views: int = 1
    drawing: tuple[int, ...] | None = None  # the same as ``used`` for the host, where that is known
    truth: Int[Tensor, "r images"] | None = None  # what they show, where we know: not for methods

    @property
    def images(self) -> int:
        """How many different ones there are."""
        return self.x.shape[1] // self.views

    def first_view(self) -> "Unlabelled":
        """One view of each image."""
        return self if self.views == 1 else replace(self, x=self.x[:, : self.images], views=1)

    def drawn_by(self) -> Sequence[int]:
        """Replicas that use theirs."""
        return self.used.nonzero().flatten().tolist() if self.drawing is None else self.drawing


@dataclass(frozen=True)
class Labelled:
    """What the labelled pass leaves behind: of the batch itself, not of images that were replayed beside it."""

    batch: Batch
    z: Float[Tensor, "r b c"]  # logits of the task's columns
    dz: Float[Tensor, "r b c"]  # gradient of the batch's mean loss with respect to them
    lr: LearningRate
    replay: Replay | None = None  # those images


@runtime_checkable
class Learner(Protocol):
    """A continual learner: what it remembers and what it does to the gradient; as it stands, nothing."""

    remembers: ClassVar[tuple[str, ...]] = ()

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """On the host, before anything else: write memories, count steps."""
        return

    def replay(self) -> Replay | None:
        """What joins the labelled batch of this step."""
        return None

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Before the labelled pass: compute the constraints at the weights of this moment."""
        return

    def terms(self, model: Replicas, batch: Batch) -> tuple[Gradient, Metrics] | None:
        """After the labelled pass: the gradient of the learner's own terms of the loss, and how large they are."""
        return None

    def penalty(self, model: Replicas) -> Float[Tensor, " r"] | None:
        """Those terms as they are weighed, where they need no images: for the loss of a validation."""
        return None

    def trains_from(self, task: int) -> int:
        """The first task whose validation counts while it trains on this one; all up to this one do."""
        return task

    def protected(self) -> list[PastGradients]:
        """Gradients of past tasks at this step's weights, which signals should not oppose."""
        return []

    def constrain(self, gradient: Gradient) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
        """The gradient to step along, and which replicas' gradients had to be changed."""
        return gradient.flat, torch.zeros(len(gradient.flat), dtype=torch.bool, device=gradient.flat.device)

    def end(self, model: Replicas) -> None:
        """After the optimizer step."""
        return


@runtime_checkable
class Signal(Protocol):
    """What turns unlabelled images into a gradient; as it stands, one that draws and learns nothing."""

    remembers: ClassVar[tuple[str, ...]] = ()

    def networks(self) -> Sequence[Replicas]:
        """Further networks that it trains."""
        return ()

    def state(self) -> dict[str, Tensor]:
        """What it has learned, one row a replica."""
        return {}

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """The model's optimizer starts anew for these replicas, and so does one of its own."""
        return

    def prepare(self, unlabelled: Unlabelled) -> None:
        """On the host, before a step with unlabelled images: draw random numbers."""
        return

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """Watch a labelled batch; called in every step."""
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics
    ) -> tuple[Gradient, Metrics]:
        """Parameter gradient of the unlabelled batch, and what there is to say; called where the policy drew one."""
        ...


@runtime_checkable
class LogitSignal(Signal, Protocol):
    """A signal that gives a gradient at the logits of one training pass of the unlabelled images."""

    def slopes(
        self, model: Replicas, z: Float[Tensor, "r u c"], unlabelled: Unlabelled, task: int
    ) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """The gradient at these logits, and what there is to say."""
        ...

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """The same, back-propagated."""
        made = model.forward(unlabelled.x, task, statistics=statistics, used=unlabelled.used)
        dz, metrics = self.slopes(model, made.z, unlabelled, task)
        return made.pull(dz), metrics
