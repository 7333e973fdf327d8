"""What passes through a step: batches of both kinds, and what is known of them at each point of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from gradcast.gradients.excursion import Excursion, explore, labelled_pass
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.sgd import LearningRate
from gradcast.replicas.replicas import Pass, Replicas

Metrics = dict[str, Tensor]  # one number a replica, detached; only the store turns them into Python numbers


@dataclass(frozen=True)
class Batch:
    """Labelled images of one task, for every replica; ``y`` are places among the logits that their loss sees."""

    x: Float[Tensor, "r b *shape"]
    y: Int[Tensor, "r b"]
    task: int
    repeated: int = 0  # how many of its last images earlier batches of the task have shown already
    tasks: Int[Tensor, "r b"] | None = None  # the task of every image, where some are of earlier tasks
    again: bool = False  # one more update on the batch of the last step
    going: Bool[Tensor, " r"] | None = None  # replicas that train, on the host; None: all

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
        return Batch(self.x[:, :new], self.y[:, :new], self.task, going=self.going)

    def to_store(self, *, every: bool) -> "Batch | None":
        """What a memory may store: images that come for the first time or, with ``every``, in each epoch anew."""
        return self if every and not self.again else self.fresh


@runtime_checkable
class Scorer(Protocol):
    """From test images to a score of every class; the highest is the answer."""

    def __call__(self, x: Float[Tensor, "r n *shape"]) -> Float[Tensor, "r n c"]:
        """Score every class for each of these images."""
        ...


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
    that the learner made itself. ``watched``: signals see the gradient of the whole loss at the batch's logits, that of
    ``outputs`` included.
    """

    gradient: Gradient | None = None
    outputs: Float[Tensor, "r n columns"] | None = None
    features: Float[Tensor, "r n f"] | None = None
    metrics: Metrics = field(default_factory=dict)
    watched: bool = False


@runtime_checkable
class TaskImages(Protocol):
    """The labelled training images of a task, in the order in which they come first."""

    @property
    def task(self) -> int:
        """The number of the task, from 0 on."""
        ...

    def batches(self, size: int) -> Iterator[Batch]:
        """All of them, in batches; the last may be short."""
        ...


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
