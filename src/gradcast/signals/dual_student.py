"""The signal *dual-student*: two students, of which the one that is less stable on an image imitates the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Labelled, Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.head import Head, Watched
from gradcast.signals.mutexmatch import exists
from gradcast.signals.peer import Peer
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.signals.task_progress import Progress
from gradcast.specs.context import Context
from gradcast.specs.table import Probability, Weight
from gradcast.streams.draws import Views


class DualStudentSpec(SignalTable):
    """Two students; where one is stable on an image and the other is less so, the latter imitates the former."""

    name: Literal["dual-student"]
    consistency: Weight = 10.0  # of the distance between a student's answers to two views
    stabilisation: Weight = 100.0  # of the distance from the stable student's answer
    threshold: Probability = 0.8  # probability above which an answer may be stable; CIFAR-100 0.4
    distance: Weight = 0.01  # of the squared distance between the logits of a student's two heads
    ramp: Probability = 5 / 300  # share of a task's updates in which both weights rise; published: 5 of 300 epochs


@dataclass(frozen=True)
class Answers:
    """A student's logits of its own view, by the network and by its second head, and of the other view."""

    own: Float[Tensor, "r u c"]
    second: Float[Tensor, "r u c"]
    other: Float[Tensor, "r u c"]  # without a way back

    @property
    def inconsistency(self) -> Float[Tensor, "r u"]:
        """Of both views, image by image."""
        return apart(self.second.softmax(-1), self.other.softmax(-1), self.own)

    def stable(self, threshold: float) -> Bool[Tensor, "r u"]:
        """The same class in both views, and sure enough of it in one of them."""
        own, other = (z.softmax(-1).max(-1) for z in (self.own.detach(), self.other))
        return (own.indices == other.indices) & (torch.maximum(own.values, other.values) > threshold)

    def imitation(self, leader: "Answers", threshold: float) -> Float[Tensor, "r u"]:
        """Distance from the leader's answer where that is stable and this one is not, or is less so; else 0."""
        less = ~self.stable(threshold) | (leader.inconsistency < self.inconsistency)
        led = leader.stable(threshold) & less
        return led * apart(self.second.softmax(-1), leader.own.detach().softmax(-1), self.own)


class DualStudent(Signal):
    """The model is the first student, learns the first view, and is evaluated; a peer is the second student.

    Each has a second head on its features, which consistency and stabilisation train. Its logits should be near those
    of the network. Targets have no way back.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("peer", "heads", "progress")

    def __init__(
        self,
        peer: Peer,
        heads: Sequence[Head],
        progress: Progress,
        *,
        consistency: float = 10.0,
        stabilisation: float = 100.0,
        threshold: float = 0.8,
        distance: float = 0.01,
        ramp: float = 5 / 300,
    ) -> None:
        self.peer, self.heads, self.progress = peer, list(heads), progress
        self.consistency, self.stabilisation, self.threshold = consistency, stabilisation, threshold
        self.distance, self.ramp, self.batch = distance, ramp, 0
        self.label: Float[Tensor, "r u c"] | None = None

    def networks(self) -> Sequence[Replicas]:
        """The networks of the signal: the second student."""
        return (self.peer.network,)

    def state(self) -> dict[str, Tensor]:
        """The second student and both second heads."""
        heads = zip(("first", "second"), self.heads, strict=True)
        named = {f"{which}.{key}": value for which, head in heads for key, value in head.state().items()}
        return self.peer.state("student") | named

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """Of the second student and of the heads too."""
        self.peer.renew(which)
        for head in self.heads:
            head.renew(which)

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """Set the ramp's weight for this step."""
        self.progress.prepare(batch)
        self.batch = batch.y.shape[1]

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """The second student learns the labelled images too."""
        for head in self.heads:
            head.lr = labelled.lr
        self.peer.learn(labelled)
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """Both views pass together, through each student once."""
        students = zip((model, self.peer.network), self.heads, strict=True)
        passes = [head.watch(network, unlabelled, task, statistics=statistics) for network, head in students]
        with torch.enable_grad():
            first, second = (self._answers(student, made, task) for student, made in enumerate(passes))
            losses = self._loss(first, second), self._loss(second, first)
        self.label = first.own.detach().softmax(-1)
        gradients = [made.collect(loss) for made, loss in zip(passes, losses, strict=True)]
        self.peer.add(gradients[1], unlabelled.used)
        stable = first.stable(self.threshold).to(first.own.dtype).mean(-1)
        return gradients[0], {"signal_loss": losses[0].detach(), "stable": stable}

    def end(self, model: Replicas) -> None:
        """The step of the second student and of the heads."""
        self.peer.step()
        for head in self.heads:
            head.update()

    def _answers(self, student: int, made: Watched, task: int) -> Answers:
        """The first student's own view is the first, the second student's is the second."""
        second = self.peer.network.heads.columns(made.head(made.features), task)
        views = made.z.chunk(2, dim=1)
        return Answers(views[student], second.chunk(2, dim=1)[student], views[1 - student].detach())

    def _loss(self, student: Answers, other: Answers) -> Float[Tensor, " r"]:
        """Of one student; stabilisation counts by the share of the images that are unlabelled."""
        count = student.own.shape[1]
        share = count / (count + self.batch)
        imitation = self.stabilisation * share * student.imitation(other, self.threshold).mean(-1)
        ramped = self.progress.risen(self.ramp) * (self.consistency * student.inconsistency.mean(-1) + imitation)
        return ramped + self.distance * apart(student.own, student.second, student.own).mean(-1)


def apart(
    one: Float[Tensor, "r u c"], other: Float[Tensor, "r u c"], z: Float[Tensor, "r u c"]
) -> Float[Tensor, "r u"]:
    """Squared distance, mean over the classes that exist for the task; these show in its logits z."""
    return (one - other).square().sum(-1) / exists(z).sum(-1)


def _build(table: DualStudentSpec, context: Context) -> DualStudent:
    columns = context.model.heads.logits
    return DualStudent(
        context.peer("second student"),
        [context.head(f"{which} student", [columns], as_model=True) for which in ("first", "second")],
        context.progress(),
        consistency=table.consistency,
        stabilisation=table.stabilisation,
        threshold=table.threshold,
        distance=table.distance,
        ramp=table.ramp,
    )


ENTRY = signal_entry(
    DualStudentSpec,
    _build,
    "Dual Student",
    "one pass of two views of each unlabelled image, and a second network that trains as the model does",
    "features",
    "second-network",
    views=lambda table: Views(2),
)
