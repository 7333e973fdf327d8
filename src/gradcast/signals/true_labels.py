"""The signal *true-labels*: what unlabelled images would be worth if their labels were known; a bound, not a method."""

from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Labelled, LogitSignal, Metrics, Unlabelled
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.length import Length
from gradcast.replicas.replicas import Replicas
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import LabelsTable
from gradcast.specs.context import Context


class TrueLabelsSpec(LabelsTable):
    """True labels of the pool's images: an upper bound for signals that guess labels."""

    name: Literal["true-labels"]


class TrueLabels(LogitSignal):
    """Gradient of ``weight`` times the cross entropy with true labels; with a length, its rows are brought to it."""

    checkpointed: ClassVar[tuple[str, ...]] = ("length",)

    def __init__(self, *, weight: float = 1.0, length: Length | None = None) -> None:
        self.weight, self.length = weight, length

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """Only how long labelled gradients are."""
        return {} if self.length is None else {"tau": self.length.observe(labelled.dz)}

    def slopes(
        self, model: Replicas, z: Float[Tensor, "r u c"], unlabelled: Unlabelled, task: int
    ) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """The gradient of the cross entropy with the true labels."""
        assert unlabelled.truth is not None  # a setting sees to that
        dz = self.weight * cross_entropy(z, unlabelled.truth)[1]
        return dz if self.length is None else self.length.rescale(dz), {}


def _build(table: TrueLabelsSpec, context: Context) -> TrueLabels:
    return TrueLabels(weight=table.weight, length=table.length)


def _label(table: TrueLabelsSpec) -> str:
    return "true labels" + (", scaled" if table.scaled else "")


ENTRY = signal_entry(TrueLabelsSpec, _build, _label, "one unlabelled pass", "truth")
