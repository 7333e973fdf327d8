"""The signal *meta-gradient*: pseudo labels that would make a step on them good for the labelled batch."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Labelled, Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.excursion import explore, labelled_pass
from gradcast.signals.mixtures import Shares, divergence, mix, mix_labels


class MetaGradient(Signal):
    """Gradient of ``weight`` times the mean squared distance of the model's probabilities from such labels.

    A label starts as what the model says and takes one step along the derivative of the labelled loss after a step on
    it. To first order that is the derivative of its probabilities along the labelled gradient, taken by a central
    difference, in the weights' own arithmetic. All of this happens with running statistics; only the last pass trains.

    With ``shares`` there is one more: the first labelled images, each mixed with an unlabelled one, and the divergence
    of what the model says of a mixture from the mixture of their labels is added.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("shares",)

    def __init__(self, *, weight: float = 1.0, shares: Shares | None = None) -> None:
        self.weight, self.shares = weight, shares
        self.labelled: Labelled | None = None

    def prepare(self, unlabelled: Unlabelled) -> None:
        """Draw the proportions of mixtures."""
        if self.shares is not None:
            self.shares.draw(unlabelled.drawn_by(), unlabelled.images, unlabelled.x)

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """The batch that labels shall be good for."""
        self.labelled = labelled
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """``2 p (p - label - <p, p - label>)`` for every image, divided by their number."""
        label = self._labels(model, unlabelled, task)  # before the training passes move the running statistics
        mixed = None if self.shares is None else self._mixed(self.shares, model, unlabelled, label, statistics)
        made = model.forward(unlabelled.x, task, statistics=statistics, used=unlabelled.used)
        loss, dz = squared_distance(made.z, label)
        own = made.pull(self.weight * dz)
        return (own, {"signal_loss": loss}) if mixed is None else (own + mixed[1], {"signal_loss": loss + mixed[0]})

    def _mixed(
        self,
        shares: Shares,
        model: Replicas,
        unlabelled: Unlabelled,
        label: Float[Tensor, "r u c"],
        statistics: Statistics,
    ) -> tuple[Float[Tensor, " r"], Gradient]:
        """As many pairs as both have images."""
        assert self.labelled is not None
        assert shares.values is not None
        batch = self.labelled.batch
        pairs = min(batch.y.shape[1], unlabelled.images)
        share, own = shares.values[:, :pairs], label[:, :pairs]
        x = mix(batch.x[:, :pairs], unlabelled.x[:, :pairs], share)
        made = model.forward(x, batch.task, statistics=statistics, used=unlabelled.used)
        loss, dz = divergence(made.z, mix_labels(batch.y[:, :pairs], own, share))
        return loss, made.pull(self.weight * dz)

    def _labels(self, model: Replicas, unlabelled: Unlabelled, task: int) -> Float[Tensor, "r u c"]:
        assert self.labelled is not None
        made, dz = labelled_pass(model, self.labelled.batch)
        return explore(model, unlabelled.x, made.pull(dz).flat, task).labels(self.labelled.lr)


def squared_distance(
    z: Float[Tensor, "*r u c"], label: Float[Tensor, "*r u c"]
) -> tuple[Float[Tensor, "*r"], Float[Tensor, "*r u c"]]:
    """``|softmax(z) - label|^2``, mean over images, and its gradient."""
    p = z.softmax(-1)
    away = p - label
    loss = away.square().sum(-1).mean(-1)
    return loss, 2 * p * (away - (p * away).sum(-1, keepdim=True)) / z.shape[-2]
