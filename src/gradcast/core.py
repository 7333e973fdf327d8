"""The seams: what a batch is, what a learner may do to the gradient, what a signal may add to it.

One step, for R replicas at once (``R`` seeds of one configuration along the leading axis):

    prepare                      what the host decides: memories written, random numbers drawn
    learner.begin                the constraints of past tasks
    signal.look                  the signal looks at both kinds of images before anything is trained
    x, y, t -> logits -> loss    dL/dz and the flat gradient g, of images the learner replays too
    learner.terms                the learner's own terms of the loss add to it
    signal.learn                 the signal watches the labelled gradient
    signal.gradient              and turns unlabelled images into one more gradient
    learner.constrain            e.g. GEM's projection
    optimizer step
    learner.end, signal.end

A signal only adds to g and a learner only rewrites g, so every learner takes every signal. Everything after
``prepare`` happens on the device and never waits for an answer from it, so that a GPU may replay it as one graph:
what the host decides goes to tensors that keep their place in memory.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from gradcast.gradients.excursion import Excursion, explore, labelled_pass
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.gradients.sgd import LearningRate
from gradcast.replicas.replicas import Pass, Replicas, Statistics
from gradcast.training.task_modules import TaskModules

Metrics = dict[str, Tensor]  # one number a replica, detached; only the store turns them into Python numbers


@dataclass(frozen=True)
class Batch:
    """Labelled images of one task, for every replica; ``y`` counts classes inside the task."""

    x: Float[Tensor, "r b *shape"]
    y: Int[Tensor, "r b"]
    task: int
    repeated: int = 0  # how many of its last images earlier batches of the task have shown already
    tasks: Int[Tensor, "r b"] | None = None  # the task of every image, where some are of earlier tasks

    @property
    def each_task(self) -> Int[Tensor, "r b"]:
        """The task of every image."""
        return torch.full_like(self.y, self.task) if self.tasks is None else self.tasks

    @property
    def fresh(self) -> "Batch | None":
        """The images that come for the first time, which a memory may store."""
        new = self.y.shape[1] - self.repeated
        if new == 0 or self.repeated == 0:
            return self if new else None
        return Batch(self.x[:, :new], self.y[:, :new], self.task)


@dataclass(frozen=True)
class Replay:
    """Images of earlier steps, each with its own task, and what else a memory stored of each (e.g. logits)."""

    x: Float[Tensor, "r m *shape"]
    y: Int[Tensor, "r m"]
    tasks: Int[Tensor, "r m"]
    fields: Mapping[str, Shaped[Tensor, "r m *any"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Unlabelled:
    """Unlabelled images for every replica, and which replicas use theirs in this step.

    Several ``views`` of the same images lie one after another: image i of view v is ``x[:, v * images + i]``.
    """

    x: Float[Tensor, "r u *shape"]
    used: Bool[Tensor, " r"]
    views: int = 1
    drawing: tuple[int, ...] | None = None  # the same as ``used`` for the host, where that is known
    truth: Int[Tensor, "r images"] | None = None  # what they show, where that is known: not for methods

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

    def only(self, replicas: Bool[Tensor, " r"]) -> "Unlabelled":
        """The same for these replicas; the others use none. ``replicas`` is on the host."""
        drawing = tuple(replica for replica in self.drawn_by() if replicas[replica])
        return replace(self, used=self.used & replicas.to(self.used.device), drawing=drawing)


Feeds = tuple[Unlabelled, ...]  # one unlabelled batch for every feed of a row; nothing where none was drawn


@dataclass(frozen=True)
class Labelled:
    """What the labelled pass leaves behind."""

    batch: Batch
    z: Float[Tensor, "r b c"]  # logits of the batch in the task's columns
    dz: Float[Tensor, "r b c"]  # gradient of the batch's mean loss with respect to them
    lr: LearningRate
    outputs: Float[Tensor, "r n columns"]  # all columns of the output layer, of batch and replayed images
    replay: Replay | None = None  # images that were replayed beside the batch
    features: Float[Tensor, "r n f"] | None = None  # what the output layer saw, where the learner asks for it


@dataclass(frozen=True)
class Terms:
    """The learner's own terms of the loss: their gradient, where they have one, and how large they are.

    ``outputs`` and ``features`` are gradients with respect to those of ``Labelled``; ``gradient`` comes from passes
    that the learner made itself.
    """

    gradient: Gradient | None = None
    outputs: Float[Tensor, "r n columns"] | None = None
    features: Float[Tensor, "r n f"] | None = None
    metrics: Metrics = field(default_factory=dict)


@runtime_checkable
class TaskImages(Protocol):
    """The labelled training images of a task, in the order in which they come first."""

    @property
    def task(self) -> int:
        """Its number."""
        ...

    def batches(self, size: int) -> Iterator[Batch]:
        """All of them, in batches; the last may be short."""
        ...


@runtime_checkable
class Learner(Protocol):
    """A continual learner: what it checkpointed and what it does to the gradient; as it stands, nothing.

    ``checkpointed`` names the attributes that change while training. ``wants_features``: ``Labelled`` has features.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ()
    wants_features: ClassVar[bool] = False

    def task_begins(self, model: Replicas, images: TaskImages) -> None:
        """Before the first step of a task."""
        return

    def task_ends(self, model: Replicas, images: TaskImages) -> None:
        """After the last step of a task, before its evaluation."""
        return

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """On the host, before anything else: write memories, count steps."""
        return

    def kind(self) -> Hashable:
        """What decides, beside task and sizes, which operations the step consists of: each kind is its own graph."""
        return None

    def replay(self) -> Replay | None:
        """What joins the labelled batch of this step."""
        return None

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Before the labelled pass: compute the constraints at the weights of this moment."""
        return

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """After the labelled pass: the learner's own terms of the loss."""
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

    def guard(self) -> "Learner | None":
        """A learner that protects another network by the same memories, where there are any."""
        return None

    def constrain(self, gradient: Gradient) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
        """The gradient to step along, and which replicas' gradients had to be changed."""
        return gradient.flat, torch.zeros(len(gradient.flat), dtype=torch.bool, device=gradient.flat.device)

    def end(self, model: Replicas) -> None:
        """After the optimizer step."""
        return

    def task_modules(self) -> TaskModules | None:
        """Weights of the model that belong to one task alone, if there are any."""
        return None

    def classify(
        self, model: Replicas, x: Float[Tensor, "r n *shape"], tasks: Int[Tensor, " n"]
    ) -> Int[Tensor, "r n"] | None:
        """The classes inside these tasks that it takes images for; None: the largest logit says so."""
        return None


class Preview:
    """Both kinds of images before the training passes; what several signals need is computed once, if at all."""

    def __init__(self, model: Replicas, batch: Batch, unlabelled: Unlabelled, lr: LearningRate) -> None:
        self.model, self.batch, self.unlabelled, self.lr = model, batch, unlabelled, lr

    @property
    def x(self) -> Float[Tensor, "r u *shape"]:
        """The unlabelled images, as the model trains on them."""
        return self.unlabelled.first_view().x

    @property
    def other_view(self) -> Float[Tensor, "r u *shape"]:
        """The same images augmented once more, where there are two views."""
        return self.unlabelled.x[:, self.unlabelled.images :]

    @cached_property
    def labelled_pass(self) -> tuple[Pass, Float[Tensor, "r b c"]]:
        """The labelled batch in evaluation mode, and the loss's gradient at its logits."""
        return labelled_pass(self.model, self.batch.x, self.batch.y, self.batch.task)

    @cached_property
    def excursion(self) -> Excursion:
        """What the model says of the unlabelled images along the gradient of the labelled batch."""
        made, dz = self.labelled_pass
        return explore(self.model, self.x, made.pull(dz).flat, self.batch.task)


@dataclass(frozen=True)
class Mixed:
    """Images and soft labels that take the place of the labelled batch in the training pass."""

    x: Float[Tensor, "r b *shape"]
    label: Float[Tensor, "r b c"]


@runtime_checkable
class Signal(Protocol):
    """What turns unlabelled images into a gradient; as it stands, one that draws and learns nothing.

    ``checkpointed`` names the attributes that change while training. ``ramped``: the schedule's ramp multiplies its
    gradient. ``label``: what it took this step's unlabelled images for, if it labels them.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ()
    ramped: ClassVar[bool] = False
    label: Float[Tensor, "r u c"] | None = None

    def networks(self) -> Sequence[Replicas]:
        """Further networks that it trains."""
        return ()

    def evaluated(self) -> Replicas | None:
        """The network that is evaluated in place of the model, if there is one."""
        return None

    def state(self) -> dict[str, Tensor]:
        """What it has learned, one row a replica."""
        return {}

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """The model's optimizer starts anew for these replicas, and so does one of its own."""
        return

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """On the host, before every step, with or without unlabelled images: draw random numbers."""
        return

    def look(self, preview: Preview) -> Metrics:
        """Before the training passes of a step with unlabelled images."""
        return {}

    def mix_up(self, preview: Preview) -> Mixed | None:
        """After that: what takes the place of the labelled batch."""
        return None

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """Watch a labelled batch; called in every step."""
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics
    ) -> tuple[Gradient, Metrics]:
        """Parameter gradient of the unlabelled batch, and what there is to say; called where the policy drew one."""
        ...

    def end(self, model: Replicas) -> None:
        """After the optimizer step, with or without unlabelled images."""
        return


@runtime_checkable
class LogitSignal(Signal, Protocol):
    """A signal that gives a gradient at the logits of one training pass, which all such signals of a row share.

    ``own_pass``: it needs a pass of its own after all.
    """

    own_pass: bool = False

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
