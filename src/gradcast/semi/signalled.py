"""The signals of continual learning as parts: what they do to an unlabelled image's logits is the same here."""

from collections.abc import Sequence
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from gradcast.core import LogitSignal, Metrics, Unlabelled
from gradcast.replicas.replicas import Replicas
from gradcast.semi.core import Moment, Part
from gradcast.signals.pseudo_labels import PseudoLabels


class Signalled(Part):
    """A signal that watches the labelled batch by running statistics; ``ramped`` where its weight rises from zero.

    Of images in several views it is shown the one that the model trains on.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("signal",)

    def __init__(self, signal: LogitSignal, *, ramped: bool) -> None:
        self.signal, self.ramped = signal, ramped

    def networks(self) -> Sequence[Replicas]:
        """The signal's."""
        return self.signal.networks()

    def state(self) -> dict[str, Tensor]:
        """What the signal has learned."""
        return self.signal.state()

    def prepare(self, unlabelled: Unlabelled, step: int) -> None:
        """As the signal does."""
        self.signal.prepare(unlabelled.first_view())

    def watch(self, moment: Moment) -> Metrics:
        """The signal learns."""
        told = self.signal.learn(moment.model, moment.labelled)
        if isinstance(self.signal, PseudoLabels):
            return {}  # how it labels images that it learns again and again says nothing of those without a label
        return told

    def slopes(self, moment: Moment, z: Float[Tensor, "r u c"]) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """The signal's, with its weight."""
        dz, metrics = self.signal.slopes(moment.model, z, moment.unlabelled.first_view(), moment.batch.task)
        self.label = self.signal.label if isinstance(self.signal, PseudoLabels) else None
        return moment.weight * dz if self.ramped else dz, metrics
