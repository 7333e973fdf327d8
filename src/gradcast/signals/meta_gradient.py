"""The signal *meta-gradient*: pseudo labels that would make a step on them good for the labelled batch."""

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Labelled, Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas import Replicas, Statistics
from gradcast.signals.excursion import explore, labelled_pass


class MetaGradient(Signal):
    """Gradient of ``weight`` times the mean squared distance of the model's probabilities from such labels.

    A label starts as what the model says and takes one step along the derivative of the labelled loss after a step on
    it. To first order that is the derivative of its probabilities along the labelled gradient, taken by a central
    difference, in the weights' own arithmetic. All of this happens with running statistics; only the last pass trains.
    """

    def __init__(self, *, weight: float = 1.0) -> None:
        self.weight = weight
        self.labelled: Labelled | None = None

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """The batch that labels shall be good for."""
        self.labelled = labelled
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """``2 p (p - label - <p, p - label>)`` for every image, divided by their number."""
        label = self._labels(model, unlabelled, task)  # before the training pass moves the running statistics
        made = model.forward(unlabelled.x, task, statistics=statistics, used=unlabelled.used)
        loss, dz = squared_distance(made.z, label)
        return made.pull(self.weight * dz), {"signal_loss": loss}

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
