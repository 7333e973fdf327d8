"""The signal *co-training*: two networks agree on unlabelled images, and each resists what deceives the other."""

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Labelled, Metrics, Signal, Unlabelled
from gradcast.gradients.cross_entropy import soft_cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Pass, Replicas, Statistics
from gradcast.signals.fgsm import fgsm
from gradcast.signals.peer import Peer
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.signals.task_progress import Progress
from gradcast.specs.context import Context
from gradcast.specs.table import Probability, Weight
from gradcast.streams.scale import Scale


class CoTrainingSpec(SignalTable):
    """Two networks agree on unlabelled images, and each resists adversarial examples of the other."""

    name: Literal["co-training"]
    agreement: Weight = 10.0  # of the Jensen-Shannon divergence of both networks' answers to unlabelled images
    difference: Weight = 0.5  # of the cross entropy on adversarial examples
    epsilon: Weight = 0.02  # size of an adversarial change, where pixels reach from 0 to 1
    ramp: Probability = 80 / 600  # share of a task's updates in which both weights rise; published: 80 of 600 epochs


class CoTraining(Signal):
    """``agreement * JS(p1, p2) + difference * L_dif``, ramped up; the model is network 1 and is evaluated.

    JS is a mean over unlabelled images. L_dif is a mean over labelled and unlabelled images of ``H(p1(x), p2(g1(x))) +
    H(p2(x), p1(g2(x)))``, H cross entropy and g an adversarial example: each network should say of the other's example
    what the other says of the image. The gradient is that of the whole, answers that are targets included.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("peer", "progress")

    def __init__(
        self,
        peer: Peer,
        progress: Progress,
        *,
        scale: Scale,
        agreement: float = 10.0,
        difference: float = 0.5,
        epsilon: float = 0.02,
        ramp: float = 80 / 600,
    ) -> None:
        self.peer, self.progress, self.scale = peer, progress, scale
        self.agreement, self.difference, self.epsilon, self.ramp = agreement, difference, epsilon, ramp
        self.label: Float[Tensor, "r u c"] | None = None
        self.batch: Batch | None = None

    def networks(self) -> Sequence[Replicas]:
        """The networks of the signal: the second one."""
        return (self.peer.network,)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the second network."""
        return self.peer.state("peer")

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """Start these replicas anew, network 2 too."""
        self.peer.renew(which)

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """Set the ramp's weight for this step."""
        self.progress.prepare(batch)

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """Network 2 learns the labelled images too."""
        self.batch = labelled.batch
        self.peer.learn(labelled)
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """Labelled and unlabelled images pass together, then their adversarial examples."""
        assert self.batch is not None
        batch, images, used, peer = self.batch, unlabelled.first_view().x, unlabelled.used, self.peer.network
        x, labelled = torch.cat([batch.x, images], dim=1), batch.y.shape[1]
        tasks = torch.cat([batch.each_task, batch.y.new_full(images.shape[:2], task)], dim=1)

        def passed(network: Replicas, shown: Tensor) -> Pass:
            return network.forward(shown, task, tasks=tasks, statistics=statistics, used=used)

        def deceiving(network: Replicas, said: Tensor) -> Tensor:
            """Adversarial examples: of labels, and of what the network takes unlabelled images for."""
            y = torch.cat([batch.y, said[:, labelled:].argmax(-1)], dim=1)
            return fgsm(network, x, y, tasks, task, self.scale.difference(self.epsilon, x))

        one, two = passed(model, x), passed(peer, x)
        examples = deceiving(model, one.z), deceiving(peer, two.z)
        passes = one, two, passed(model, examples[1]), passed(peer, examples[0])
        with torch.enable_grad():
            z1, z2, deceived1, deceived2 = z = [made.z.requires_grad_() for made in passes]
            agreement = jensen_shannon(z1[:, labelled:], z2[:, labelled:]).mean(-1)
            each = soft_cross_entropy(deceived2, z1.softmax(-1)) + soft_cross_entropy(deceived1, z2.softmax(-1))
            weighed = self.agreement * agreement + self.difference * each.mean(-1)
            loss = self.progress.risen(self.ramp) * weighed
            slopes = torch.autograd.grad(loss.sum(), z)
        self.label = z1[:, labelled:].detach().softmax(-1)
        gradients = [made.pull(dz) for made, dz in zip(passes, slopes, strict=True)]
        self.peer.add(gradients[1] + gradients[3], used)
        return gradients[0] + gradients[2], {"signal_loss": loss.detach()}

    def end(self, model: Replicas) -> None:
        """Take the step of network 2."""
        self.peer.step()


def jensen_shannon(one: Float[Tensor, "r u c"], other: Float[Tensor, "r u c"]) -> Float[Tensor, "r u"]:
    """``H((p + q) / 2) - (H(p) + H(q)) / 2`` of two rows of logits; safe where a class has no probability."""
    logs = one.log_softmax(-1), other.log_softmax(-1)
    mean = torch.logaddexp(*logs) - math.log(2)
    whole, *parts = (-(each.exp() * each).sum(-1) for each in (mean, *logs))
    return whole - (parts[0] + parts[1]) / 2


def _build(table: CoTrainingSpec, context: Context) -> CoTraining:
    return CoTraining(
        context.peer("second view"),
        context.progress(),
        scale=context.scale,
        agreement=table.agreement,
        difference=table.difference,
        epsilon=table.epsilon,
        ramp=table.ramp,
    )


ENTRY = signal_entry(
    CoTrainingSpec,
    _build,
    "co-training",
    "three passes of unlabelled images and of the labelled batch, through each of two networks, the second of which "
    "trains as the model does",
    "second-network",
    "pixels",
)
