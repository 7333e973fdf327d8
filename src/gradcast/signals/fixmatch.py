"""The signal *fixmatch*: where the model is sure of a weak view, a strong view of the same image learns that class."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.table import Probability, Weight
from gradcast.streams.draws import Views
from gradcast.streams.named_augmentations import AnyAugmentation, named


class MatchTable(SignalTable):
    """What signals have that match strong views to weak ones."""

    weight: Weight = 1.0  # of the loss of strong views
    threshold: Probability = 0.95  # probability of the best class from which on a weak view decides
    weak: list[AnyAugmentation] = ["flip", "shift"]  # what makes a weak view
    strong: list[AnyAugmentation] = ["flip", "shift", "colour-jitter", "greyscale", "cutout"]  # what makes a strong one

    @property
    def views(self) -> Views:
        """Two views of every image: weak first, then strong."""
        return Views.different(named(self.weak), named(self.strong))


class FixMatchSpec(MatchTable):
    """Where the model is sure of a weak view, a strong view of the same image learns that class."""

    name: Literal["fixmatch"]


class FixMatch(Signal):
    """Gradient of ``weight`` times the cross entropy of strong views and what weak views decide.

    The mean is over all images, also those of which the model is not sure.
    """

    def __init__(self, *, weight: float = 1.0, threshold: float = 0.95) -> None:
        self.weight, self.threshold = weight, threshold
        self.label: Float[Tensor, "r u c"] | None = None

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """Both views of an image pass together."""
        made = model.forward(unlabelled.x, task, statistics=statistics, used=unlabelled.used)
        with torch.enable_grad():
            z = made.z.requires_grad_()
            weak, strong = z.chunk(2, dim=1)
            self.label, sure = decide(weak, self.threshold)
            loss = match(self.label, sure, strong)
            (dz,) = torch.autograd.grad(self.weight * loss.sum(), z)
        return made.pull(dz), {"signal_loss": loss.detach(), "confident": sure.mean(-1)}


def decide(weak: Float[Tensor, "r u c"], threshold: float) -> tuple[Float[Tensor, "r u c"], Float[Tensor, "r u"]]:
    """What the model says of weak views, without a way back, and 1 where it is sure, 0 elsewhere."""
    label = weak.detach().softmax(-1)
    return label, (label.amax(-1) >= threshold).to(label.dtype)


def match(
    label: Float[Tensor, "r u c"], sure: Float[Tensor, "r u"], strong: Float[Tensor, "r u c"]
) -> Float[Tensor, " r"]:
    """Cross entropy of strong views and the likeliest classes, zero where the model is not sure; mean over images."""
    best = label.argmax(-1, keepdim=True)
    losses = -strong.log_softmax(-1).gather(-1, best).squeeze(-1)
    return (sure * losses).mean(-1)


def _build(table: FixMatchSpec, context: Context) -> FixMatch:
    return FixMatch(weight=table.weight, threshold=table.threshold)


ENTRY = signal_entry(
    FixMatchSpec, _build, "FixMatch", "one pass of two views of each unlabelled image", views=lambda table: table.views
)
