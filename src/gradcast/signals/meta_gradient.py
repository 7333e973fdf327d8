"""The signal *meta-gradient*: pseudo labels that would make a step on them good for the labelled batch."""

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Labelled, Metrics, Signal, Unlabelled
from gradcast.gradients.entropy import cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.sgd import along
from gradcast.replicas import Replicas, Statistics

EXCURSION = 0.01  # length of the step to either side along the labelled gradient


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
        label = self._labels(model, unlabelled, task)
        made = model.forward(unlabelled.x, task, statistics=statistics, used=unlabelled.used)
        loss, dz = squared_distance(made.z, label)
        return made.pull(self.weight * dz), {"signal_loss": loss}

    def _labels(self, model: Replicas, unlabelled: Unlabelled, task: int) -> Float[Tensor, "r u c"]:
        assert self.labelled is not None
        batch, lr = self.labelled.batch, self.labelled.lr
        made = model.forward(batch.x, task, statistics="frozen", exact=True)
        direction = made.pull(cross_entropy(made.z, batch.y)[1]).flat
        size = EXCURSION / direction.norm(dim=1).clamp_min(torch.finfo(direction.dtype).tiny)

        def says(shift: Tensor | float) -> Tensor:
            theta = model.theta + shift * direction
            with torch.no_grad():
                z = model.forward(unlabelled.x, task, statistics="frozen", theta=theta, exact=True).z
            return z.softmax(-1)

        shift = size.unsqueeze(1)
        slope = (says(shift) - says(-shift)) / shift.unsqueeze(2)
        return on_simplex(says(0.0) - along(lr, slope) * slope)


def on_simplex(rows: Float[Tensor, "*r c"]) -> Float[Tensor, "*r c"]:
    """Negative entries become zero, rows are divided by their sum; a zero row stays zero."""
    rows = rows.clamp_min(0)
    total = rows.sum(-1, keepdim=True)
    return rows / torch.where(total > 0, total, 1.0)


def squared_distance(
    z: Float[Tensor, "*r u c"], label: Float[Tensor, "*r u c"]
) -> tuple[Float[Tensor, "*r"], Float[Tensor, "*r u c"]]:
    """``|softmax(z) - label|^2``, mean over images, and its gradient."""
    p = z.softmax(-1)
    away = p - label
    loss = away.square().sum(-1).mean(-1)
    return loss, 2 * p * (away - (p * away).sum(-1, keepdim=True)) / z.shape[-2]
