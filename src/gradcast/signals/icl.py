"""The signal *icl*: FixMatch, and contrastive learning on mixtures of images."""

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from gradcast.core import Batch, Labelled, Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.fixmatch import MatchTable, decide, match
from gradcast.signals.head import Head
from gradcast.signals.mixtures import Shares, mix
from gradcast.signals.signal_entry import signal_entry
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate, Weight


class IclSpec(MatchTable):
    """FixMatch, and contrastive learning on mixtures: features of a mixture lie between those of its images."""

    name: Literal["icl"]
    contrast: Weight = 0.5  # weight of the interpolated contrast; weight is that of FixMatch's loss
    temperature: Rate = 1.0  # that similarities are divided by
    beta: Rate = 0.75  # parameter of the Beta distribution of mixtures
    head: list[Positive] = [32, 32]  # widths of the projection head, with BatchNorm and ReLU between its layers


class Icl(Signal):
    """``weight`` times FixMatch's loss and ``contrast`` times the interpolated contrast.

    The first half of the unlabelled images is mixed with the second, in one proportion a step. FixMatch's loss is that
    of the first half.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("head", "shares")

    def __init__(
        self,
        head: Head,
        shares: Shares,
        *,
        weight: float = 1.0,
        threshold: float = 0.95,
        contrast: float = 0.5,
        temperature: float = 1.0,
    ) -> None:
        self.head, self.shares, self.weight, self.threshold = head, shares, weight, threshold
        self.contrast, self.temperature = contrast, temperature
        self.label: Float[Tensor, "r u c"] | None = None

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the projection head."""
        return self.head.state()

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """Draw the proportion of each replica's mixtures."""
        if unlabelled is not None:
            self.shares.draw(unlabelled.drawn_by(), 1, unlabelled.x)

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """The head has the model's rate, which a schedule may change."""
        self.head.lr = labelled.lr
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """Both halves and their mixtures, in both views, pass together."""
        told = dict[str, Tensor]()
        drawn = self.shares.of(1)
        larger = torch.maximum(drawn, 1 - drawn)
        first, second = halves(unlabelled)
        share = larger.expand(-1, first.shape[1])
        shown = replace(unlabelled, x=torch.cat([first, second, mix(first, second, share)], dim=1), views=6)

        def loss(z: Tensor, features: Tensor) -> Tensor:
            weak, strong, weak_too, *_ = z.chunk(6, dim=1)
            label, sure = decide(weak, self.threshold)
            self.label, told["confident"] = torch.cat([label, weak_too.detach().softmax(-1)], dim=1), sure.mean(-1)
            one, other, mixed = normalize(self.head(features), dim=-1).chunk(3, dim=1)
            between = interpolated(one, other, mixed, share, self.temperature)
            return self.weight * match(label, sure, strong) + self.contrast * between

        gradient, metrics = self.head.descend_with_logits(model, shown, task, loss, statistics=statistics)
        return gradient, metrics | told


def halves(unlabelled: Unlabelled) -> tuple[Float[Tensor, "r n *shape"], Float[Tensor, "r n *shape"]]:
    """The first and the second half of the images: of each the weak views, then the strong ones."""
    by_view: Tensor = unlabelled.x.unflatten(1, (2, 2, unlabelled.images // 2))
    return by_view[:, :, 0].flatten(1, 2), by_view[:, :, 1].flatten(1, 2)


def interpolated(
    one: Float[Tensor, "r n d"],
    other: Float[Tensor, "r n d"],
    mixed: Float[Tensor, "r n d"],
    share: Float[Tensor, "r n"],
    temperature: float,
) -> Float[Tensor, " r"]:
    """Contrast: features of a mixture match the mixture of its images' features and no others; mean over mixtures.

    Unlike each other are weak views of one half and strong views of the other. What is alike is not among them.
    """
    alike = (mixed * mix(one, other, share)).sum(-1) / temperature
    rows = torch.cat([one.chunk(2, dim=1)[0], other.chunk(2, dim=1)[1]], dim=1)
    itself = torch.eye(rows.shape[1], dtype=torch.bool, device=rows.device)
    unlike = (rows @ rows.mT / temperature).masked_fill(itself, -torch.inf).logsumexp(-1)
    return (unlike - alike).mean(-1)


def _build(table: IclSpec, context: Context) -> Icl:
    return Icl(
        context.head("interpolated", table.head, normed=True),
        Shares(table.beta, context.seeds, "interpolated"),
        weight=table.weight,
        threshold=table.threshold,
        contrast=table.contrast,
        temperature=table.temperature,
    )


ENTRY = signal_entry(
    IclSpec,
    _build,
    "ICL",
    "one pass of two views of each unlabelled image, and of half as many mixtures; a projection head",
    "features",
    "halves",
    views=lambda table: table.views,
)
