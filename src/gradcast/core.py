"""The seams: what a batch is, what a learner may do to the gradient, what a signal may add to it.

One step, for R replicas at once (``R`` seeds of one configuration along the leading axis):

    prepare                      what the host decides: memories written, random numbers drawn
    learner.begin                the constraints of past tasks
    signal.look                  the signal looks at both kinds of images before anything is trained
    x, y, t -> logits -> loss    dL/dz and the flat gradient g, of images the learner replays too
    learner.terms                the learner's own terms of the loss add to it
    learner.watch                the learner sees the labelled gradient without the terms of other passes
    learner.lookahead            terms of the loss that depend on where this gradient leads
    signal.learn                 the signal watches the labelled gradient
    signal.gradient              and turns unlabelled images into one more gradient
    learner.constrain            e.g. GEM's projection
    optimizer step
    learner.end, signal.end

A signal only adds to g and a learner only rewrites g, so every learner takes every signal. Everything after
``prepare`` happens on the device and never waits for an answer from it, so that a GPU may replay it as one graph:
what the host decides goes to tensors that keep their place in memory.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.batches import (
    Batch,
    Feeds,
    Labelled,
    Metrics,
    Mixed,
    Preview,
    Replay,
    Scorer,
    TaskImages,
    Terms,
    Unlabelled,
)
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.gradients.sgd import LearningRate
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.training.task_modules import TaskModules

__all__ = [
    "Batch",
    "Feeds",
    "Labelled",
    "Learner",
    "LogitSignal",
    "Metrics",
    "Mixed",
    "Preview",
    "Replay",
    "Scorer",
    "Signal",
    "TaskImages",
    "Terms",
    "Unlabelled",
]


@runtime_checkable
class Learner(Protocol):
    """A continual learner: what it checkpointed and what it does to the gradient; as it stands, nothing.

    ``checkpointed`` names the attributes that change while training. ``wants_features``: ``Labelled`` has features.
    ``replaces_weights``: a task ends with other weights than its steps led to.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ()
    wants_features: ClassVar[bool] = False
    replaces_weights: ClassVar[bool] = False

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

    def shown(self, model: Replicas, x: Float[Tensor, "r n *shape"]) -> Float[Tensor, "r n *shape"]:
        """Images of batch and replay as the labelled pass sees them, e.g. augmented."""
        return x

    def statistics(self) -> Statistics:
        """What the labelled pass does to BatchNorm statistics."""
        return "update"

    def begin(self, model: Replicas, batch: Batch) -> None:
        """Before the labelled pass: compute the constraints at the weights of this moment."""
        return

    def competing(self, model: Replicas, batch: Batch) -> Bool[Tensor, "r c"] | None:
        """Logits that the loss of the batch is taken over; None: all that its heads show. Replayed images see all."""
        return None

    def terms(self, model: Replicas, labelled: Labelled) -> Terms | None:
        """After the labelled pass: the learner's own terms of the loss."""
        return None

    def watch(self, gradient: Gradient) -> None:
        """After that: the gradient of the labelled pass, without terms that come from elsewhere."""
        return

    def lookahead(self, model: Replicas, gradient: Gradient, lr: LearningRate) -> Terms | None:
        """After that: terms of the loss that depend on where the same gradient would lead."""
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

    def scorer(self, model: Replicas) -> Scorer | None:
        """What scores test images at the weights of this moment, one number for each column of the output layer.

        The largest score is the answer, as the largest logit is where there is None.
        """
        return None


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
        """The gradient of the weights: ``slopes`` at the logits of one pass, back-propagated."""
        made = model.forward(unlabelled.x, task, statistics=statistics, used=unlabelled.used)
        dz, metrics = self.slopes(model, made.z, unlabelled, task)
        return made.pull(dz), metrics
