"""The signal *vat*: the same prediction on an image and on its most adversarial neighbour."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics, Signal, Unlabelled
from gradcast.gradients.cross_entropy import entropy
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.adversarial import LocalDivergence, by_length
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate, Weight


class VatSpec(SignalTable):
    """The prediction should be the same on an image and on its most adversarial neighbour."""

    name: Literal["vat"]
    weight: Weight = 1.0  # of the divergence
    epsilon: Rate = 2.0  # length of the adversarial change of an image, as the network sees it
    xi: Rate = 0.1  # length of the change that tells its direction
    iterations: Positive = 1  # of the power method
    entropy: Weight = 0.0  # weight of the entropy of what the model says of images; 1: VAT with entropy minimisation


class Vat(Signal):
    """Gradient of ``weight * KL(p(x) || p(x + r)) + entropy * H(p(x))``, mean over images.

    ``r`` has the length ``epsilon`` and the direction in which the divergence grows fastest: its Hessian's eigenvector
    of the largest eigenvalue, by the power method from a random direction.
    """

    def __init__(
        self,
        *,
        weight: float = 1.0,
        epsilon: float = 2.0,
        xi: float = 0.1,
        iterations: int = 1,
        entropy: float = 0.0,
    ) -> None:
        self.weight, self.epsilon, self.xi, self.iterations, self.entropy = weight, epsilon, xi, iterations, entropy
        self.label: Float[Tensor, "r u c"] | None = None

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """The images pass, then once for each iteration of the power method, then with the change that it found."""
        near, made = LocalDivergence.around(model, unlabelled.first_view(), task, statistics)
        self.label = near.label
        loss, gradient = near.gradient(self.epsilon * self._direction(near), self.weight)
        if self.entropy:
            uncertain, dz = entropy(made.z)
            loss, gradient = loss + self.entropy * uncertain, gradient + made.pull(self.entropy * dz)
        return gradient, {"signal_loss": loss}

    def _direction(self, near: LocalDivergence) -> Float[Tensor, "r u *shape"]:
        """Of length 1 for every image."""
        x = near.images.x
        d = by_length(near.model.chance.unlabelled.normal(x.shape[1:], x))
        for _ in range(self.iterations):
            d = by_length(near.curvature(d, self.xi))
        return d


def _build(table: VatSpec, context: Context) -> Vat:
    return Vat(
        weight=table.weight,
        epsilon=table.epsilon,
        xi=table.xi,
        iterations=table.iterations,
        entropy=table.entropy,
    )


ENTRY = signal_entry(
    VatSpec,
    _build,
    lambda table: "VAT" + (", entropy" if table.entropy else ""),
    "three unlabelled passes, one of which trains; one more for each further iteration",
    "changes-images",
)
