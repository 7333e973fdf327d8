"""The signal *vicreg*: views of an image have similar features, and no feature is constant or repeats another.

Variance, invariance and covariance: no image is told apart from others, so batches may be small.
"""

from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Labelled, Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.head import Head
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Weight
from gradcast.streams.draws import Views
from gradcast.streams.named_augmentations import AnyAugmentation, named

EPS = 1e-4  # under the root of a variance


class VicregSpec(SignalTable):
    """Two views of an image have similar features, and features vary and are not correlated."""

    name: Literal["vicreg"]
    weight: Weight = 0.3  # of the whole loss
    variance: Weight = 1.0  # of the term that keeps deviations at one or more; likeness has weight 1
    covariance: Weight = 0.04  # of the term that keeps numbers uncorrelated
    head: list[Positive] = [256, 256]  # widths of the projection head
    augment: list[AnyAugmentation] = ["resized-crop", "flip", "colour-jitter", "greyscale"]  # what makes a view


class Vicreg(Signal):
    """Gradient of ``weight`` times the three terms."""

    checkpointed: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(self, head: Head, *, weight: float, variance: float, covariance: float) -> None:
        self.head, self.weight, self.variance, self.covariance = head, weight, variance, covariance

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the projection head."""
        return self.head.state()

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """The head has the model's rate, which a schedule may change."""
        self.head.lr = labelled.lr
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "separate"
    ) -> tuple[Gradient, Metrics]:
        """All views of a replica pass together."""

        def loss(projected: Tensor) -> Tensor:
            one, other = projected.chunk(2, dim=1)
            return terms(one, other, variance=self.variance, covariance=self.covariance)

        return self.head.descend(model, unlabelled, loss, weight=self.weight, statistics=statistics)


def terms(
    one: Float[Tensor, "r n d"], other: Float[Tensor, "r n d"], *, variance: float, covariance: float
) -> Float[Tensor, " r"]:
    """Mean squared difference of the views, and both penalties of each view's numbers."""
    total = (one - other).square().mean((1, 2))
    for view in (one, other):
        centred = view - view.mean(1, keepdim=True)
        products = centred.mT @ centred / (view.shape[1] - 1)
        squares = products.diagonal(dim1=-2, dim2=-1)
        short = (1 - (squares + EPS).sqrt()).relu().mean(-1) / 2
        shared = (products.square().sum((1, 2)) - squares.square().sum(-1)) / view.shape[2]
        total = total + variance * short + covariance * shared
    return total


def _build(table: VicregSpec, context: Context) -> Vicreg:
    head = context.head("projection", table.head)
    return Vicreg(head, weight=table.weight, variance=table.variance, covariance=table.covariance)


def _views(table: VicregSpec) -> Views:
    return Views(2, named(table.augment))


ENTRY = signal_entry(
    VicregSpec,
    _build,
    "VICReg",
    "one pass of two views of each unlabelled image to the features",
    "features",
    "pairs",
    "label-free",
    views=_views,
)
