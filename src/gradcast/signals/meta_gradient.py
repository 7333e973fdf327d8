"""The signal *meta-gradient*: pseudo labels that would make a step on them good for the labelled batch."""

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, LogitSignal, Metrics, Mixed, Preview, Unlabelled
from gradcast.gradients.cross_entropy import squared_distance
from gradcast.replicas.replicas import Replicas
from gradcast.signals.mixtures import Shares, mix, mix_labels
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.table import Weight


class MetaGradientSpec(SignalTable):
    """Labels that would make a step on them good for the labelled batch."""

    name: Literal["meta-gradient"]
    weight: Weight = 1.0  # of the squared distance from the pseudo labels
    mix_up: Weight = 0.0  # parameter of the Beta distribution of mixtures with labelled images; 0: none are made
    omitted_defaults: ClassVar[tuple[str, ...]] = ("mix_up",)


class MetaGradient(LogitSignal):
    """Gradient of ``weight`` times the mean squared distance of the model's probabilities from such labels, ramped up.

    A label starts as what the model says and takes one step along the derivative of the labelled loss after a step on
    it. To first order that is the derivative of its probabilities along the labelled gradient, taken by a central
    difference, in the weights' own arithmetic. This happens in evaluation mode, before the training passes; labels
    start anew in every step.

    With ``shares`` (mix-up) labelled image i is mixed with unlabelled image i, and so are their labels: the mixtures
    take the place of the labelled images in the training pass. Labelled images beyond the unlabelled ones stay alone.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("shares",)
    ramped: ClassVar[bool] = True

    def __init__(self, *, weight: float = 1.0, shares: Shares | None = None) -> None:
        self.weight, self.shares = weight, shares
        self.label: Float[Tensor, "r u c"] | None = None

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """Draw the proportions of mixtures."""
        if self.shares is not None and unlabelled is not None:
            pairs = min(batch.y.shape[1], unlabelled.images)
            self.shares.draw(unlabelled.drawn_by(), pairs, unlabelled.x)

    def look(self, preview: Preview) -> Metrics:
        """Label the unlabelled images."""
        self.label = preview.excursion.labels(preview.lr)
        moved = self.label - preview.excursion.here.softmax(-1)
        return {"label_movement": moved.abs().sum(-1).mean(-1) / 2}

    def mix_up(self, preview: Preview) -> Mixed | None:
        """Labelled images of replicas without unlabelled ones stay as they are."""
        if self.shares is None:
            return None
        assert self.label is not None
        batch, used = preview.batch, preview.unlabelled.used.view(-1, 1)
        pairs = min(batch.y.shape[1], preview.unlabelled.images)
        shares = torch.where(used, self.shares.of(pairs), 1.0)
        x = mix(batch.x[:, :pairs], preview.x[:, :pairs], shares)
        label = mix_labels(batch.y[:, :pairs], self.label[:, :pairs], shares)
        if pairs < batch.y.shape[1]:
            alone = torch.ones_like(batch.y[:, pairs:], dtype=shares.dtype)
            nothing = torch.zeros_like(label[:, :1]).expand(-1, alone.shape[1], -1)
            rest = mix_labels(batch.y[:, pairs:], nothing, alone)
            x, label = torch.cat([x, batch.x[:, pairs:]], dim=1), torch.cat([label, rest], dim=1)
        return Mixed(x, label)

    def slopes(
        self, model: Replicas, z: Float[Tensor, "r u c"], unlabelled: Unlabelled, task: int
    ) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """``2 p (p - label - <p, p - label>)`` for every image, divided by their number."""
        assert self.label is not None
        loss, dz = squared_distance(z, self.label)
        return self.weight * dz, {"signal_loss": loss}


def _build(table: MetaGradientSpec, context: Context) -> MetaGradient:
    shares = Shares(table.mix_up, context.seeds) if table.mix_up else None
    return MetaGradient(weight=table.weight, shares=shares)


def _label(table: MetaGradientSpec) -> str:
    return "meta-gradient" + (", mix-up" if table.mix_up else "")


ENTRY = signal_entry(MetaGradientSpec, _build, _label, "one labelled and four unlabelled passes, one of which trains")
