"""The seams: what a batch is, what a learner may do to the gradient, what a signal may add to it.

One step, for R replicas at once (``R`` seeds of one configuration along the leading axis):

    prepare                      what the host decides: memories written, random numbers drawn
    learner.begin                the constraints of past tasks
    x, y, t -> logits -> loss    dL/dz and the flat gradient g
    signal.learn                 the signal watches the labelled gradient
    signal.gradient              and turns unlabelled images into one more gradient
    learner.constrain            e.g. GEM's projection
    optimizer step
    learner.end

A signal only adds to g and a learner only rewrites g, so every learner takes every signal. Everything after
``prepare`` happens on the device and never waits for an answer from it, so that a GPU may replay it as one graph.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradcast.gradients.gradient import Gradient
from gradcast.replicas import Replicas, Statistics

Metrics = dict[str, Tensor]  # one number a replica, detached; only the store turns them into Python numbers


@dataclass(frozen=True)
class Batch:
    """Labelled images of one task, for every replica; ``y`` counts classes inside the task."""

    x: Float[Tensor, "r b *shape"]
    y: Int[Tensor, "r b"]
    task: int


@dataclass(frozen=True)
class Unlabelled:
    """Unlabelled images for every replica, and which replicas use theirs in this step."""

    x: Float[Tensor, "r u *shape"]
    used: Bool[Tensor, " r"]


@dataclass(frozen=True)
class Labelled:
    """What the labelled pass leaves behind: logits of the task's columns, their gradient, labels, learning rate."""

    z: Float[Tensor, "r b c"]
    dz: Float[Tensor, "r b c"]
    y: Int[Tensor, "r b"]
    lr: float


@runtime_checkable
class Learner(Protocol):
    """A continual learner: what it remembers and what it does to the gradient."""

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """On the host, before anything else: write memories, count steps."""
        ...

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Before the labelled pass: compute the constraints at the weights of this moment."""
        ...

    def constrain(self, gradient: Gradient) -> tuple[Float[Tensor, "r p"], Bool[Tensor, " r"]]:
        """The gradient to step along, and which replicas' gradients had to be changed."""
        ...

    def end(self, model: Replicas) -> None:
        """After the optimizer step."""
        ...


@runtime_checkable
class Signal(Protocol):
    """What turns unlabelled images into a gradient."""

    def prepare(self, unlabelled: Unlabelled) -> None:
        """On the host, before a step with unlabelled images: draw random numbers."""
        ...

    def learn(self, labelled: Labelled) -> Metrics:
        """Watch a labelled batch; called in every step."""
        ...

    def gradient(self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics) -> Gradient:
        """Parameter gradient of the unlabelled batch; called where the policy drew one."""
        ...
