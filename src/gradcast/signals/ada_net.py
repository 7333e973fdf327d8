"""The signal *ada-net*: mixtures of labelled and unlabelled images, whose features must not show the proportions."""

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Labelled, Metrics, Preview, Signal, Unlabelled
from gradcast.gradients.cross_entropy import soft_cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.head import Head
from gradcast.signals.mixtures import Shares, mix, mix_labels
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.signals.task_progress import Progress
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate, Weight

ANSWERS = 2  # of the domain network: labelled, unlabelled


class AdaNetSpec(SignalTable):
    """Mixtures of labelled and unlabelled images, whose features do not show how much of each is in them."""

    name: Literal["ada-net"]
    weight: Weight = 1.0  # of the cross entropy of mixtures
    alignment: Weight = 1.0  # of the reversed gradient of the domain network
    beta: Rate = 1.0  # parameter of the Beta distribution of mixtures; SVHN 0.1
    head: list[Positive] = [1024, 1024]  # widths of the domain network before its two answers


class AdaNet(Signal):
    """``weight * mean l CE(mixture, label) + CE(domain network, (l, 1 - l))``, the latter by way of gradient reversal.

    Labelled image i is mixed with unlabelled image i in the proportion l; those without a partner take no part. The
    unlabelled image's label is what the model says in evaluation mode before the training passes. The domain network
    descends its loss, the features ascend it, times ``alignment * (2 / (1 + exp(-10 k)) - 1)``, k the share of the
    task's training that is done.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("head", "shares", "progress")

    def __init__(
        self, head: Head, shares: Shares, progress: Progress, *, weight: float = 1.0, alignment: float = 1.0
    ) -> None:
        self.head, self.shares, self.progress, self.weight, self.alignment = head, shares, progress, weight, alignment
        self.label: Float[Tensor, "r u c"] | None = None
        self.said: Float[Tensor, "r u columns"] | None = None  # outputs for the unlabelled images
        self.batch: Batch | None = None

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the domain network."""
        return self.head.state()

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """Start these replicas anew, the domain network too."""
        self.head.renew(which)

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """Draw the proportions of mixtures."""
        self.progress.prepare(batch)
        if unlabelled is not None:
            self.shares.draw(unlabelled.drawn_by(), _pairs(batch, unlabelled), unlabelled.x)

    @torch.no_grad()
    def look(self, preview: Preview) -> Metrics:
        """Label the unlabelled images."""
        self.said = preview.model.everything(preview.x, statistics="frozen").z
        self.label = preview.model.heads.columns(self.said, preview.batch.task).softmax(-1)
        return {}

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """The images to be mixed, and the rate of the domain network."""
        self.batch, self.head.lr = labelled.batch, labelled.lr
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """Mixtures pass, each once."""
        assert self.batch is not None
        assert self.said is not None
        batch, pairs = self.batch, _pairs(self.batch, unlabelled)
        share, tasks = self.shares.of(pairs), batch.each_task[:, :pairs]
        soft = model.heads.columns_at(self.said[:, :pairs], tasks, task).softmax(-1)
        label = mix_labels(batch.y[:, :pairs], soft, share)
        mixed = replace(unlabelled, x=mix(batch.x[:, :pairs], unlabelled.x[:, :pairs], share), views=1)
        made = self.head.watch(model, mixed, task, statistics=statistics, tasks=tasks)
        with torch.enable_grad():
            classes = (share * soft_cross_entropy(made.z, label)).mean(-1)
            answers = self.head(reverse(made.features, self.alignment * reversal(self.progress.share)))
            domain = soft_cross_entropy(answers, torch.stack([share, 1 - share], dim=-1)).mean(-1)
            loss = self.weight * classes + domain
        return made.collect(loss), {"signal_loss": loss.detach()}

    def end(self, model: Replicas) -> None:
        """The step of the domain network."""
        self.head.update()


def reversal(k: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """``2 / (1 + exp(-10 k)) - 1``: from 0 to nearly 1 while k goes from 0 to 1."""
    return 2 / (1 + torch.exp(-10 * k)) - 1


def reverse(features: Float[Tensor, "*any"], weight: float | Float[Tensor, ""]) -> Float[Tensor, "*any"]:
    """The same numbers, whose gradient is turned round and multiplied by the weight."""
    return features.detach() - weight * (features - features.detach())


def _pairs(batch: Batch, unlabelled: Unlabelled) -> int:
    return min(batch.y.shape[1], unlabelled.images)


def _build(table: AdaNetSpec, context: Context) -> AdaNet:
    return AdaNet(
        context.head("domain", [*table.head, ANSWERS], as_model=True),
        Shares(table.beta, context.seeds, "domain"),
        context.progress(),
        weight=table.weight,
        alignment=table.alignment,
    )


ENTRY = signal_entry(
    AdaNetSpec,
    _build,
    "ADA-Net",
    "one unlabelled pass, and one of as many mixtures; a domain network",
    "features",
)
