"""The part *meta-gradient*: labels that would make a step on them good for the labelled batch."""

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics
from gradcast.semi.core import Moment, Part
from gradcast.signals.meta_gradient import squared_distance


class MetaLabels(Part):
    """The mean squared distance of the model's probabilities from such labels, ramped up.

    Labels start anew at every step as what the model says; nothing is stored.
    """

    def __init__(self) -> None:
        self.label: Float[Tensor, "r u c"] | None = None  # of this step's images, from ``watch`` on

    def watch(self, moment: Moment) -> Metrics:
        """Label the unlabelled images."""
        self.label = moment.excursion.labels(moment.lr)
        moved = self.label - moment.excursion.here.softmax(-1)
        return {"label_movement": moved.abs().sum(-1).mean(-1) / 2}

    def slopes(self, moment: Moment, z: Float[Tensor, "r u c"]) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """Of the squared distance."""
        assert self.label is not None
        loss, dz = squared_distance(z, self.label)
        return moment.weight * dz, {"signal_loss": loss}
