"""The signal *contrastive*: features of two views of an image should be similar, those of different images not."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from gradcast.core import Labelled, Metrics, Signal, Unlabelled
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.head import Head
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate, Weight
from gradcast.streams.draws import Views
from gradcast.streams.named_augmentations import AnyAugmentation, named
from gradcast.streams.reaugment import Reaugment


class ContrastiveSpec(SignalTable):
    """Two views of an image look alike to the features."""

    name: Literal["contrastive"]
    weight: Weight = 0.3  # of the loss
    temperature: Rate = 0.2  # that similarities are divided by
    head: list[Positive] = [128, 64]  # widths of the projection head
    augment: list[AnyAugmentation] = ["resized-crop", "flip", "jitter"]  # what makes a view
    labelled: bool = False  # whether labelled and replayed images are shown too, views of one class as partners
    omitted_defaults: ClassVar[tuple[str, ...]] = ("labelled",)


@dataclass(frozen=True)
class LabelledViews:
    """How labelled images are shown beside unlabelled ones: by the same augmentations, as the network sees images."""

    show: Reaugment

    def views(self, model: Replicas, labelled: Labelled) -> tuple[Float[Tensor, "r n *shape"], Int[Tensor, "r n"]]:
        """Two views of the batch and of what was replayed, and their classes; numbers are drawn on the device."""
        batch, replay = labelled.batch, labelled.replay
        x, classes = batch.x, model.heads.classes(batch.y, torch.full_like(batch.y, batch.task))
        if replay is not None:
            x = torch.cat([x, replay.x], dim=1)
            classes = torch.cat([classes, model.heads.classes(replay.y, replay.tasks)], dim=1)
        views = self.show(torch.cat([x, x], dim=1), model.chance.unlabelled)
        return views, torch.cat([classes, classes], dim=1)


class Contrastive(Signal):
    """Gradient of ``weight`` times the normalised temperature-scaled cross entropy of SimCLR.

    With ``labelled_views`` labelled images are among those to be told apart, and views of one class belong together.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(
        self, head: Head, *, temperature: float, weight: float, labelled_views: LabelledViews | None = None
    ) -> None:
        self.head, self.temperature, self.weight, self.labelled_views = head, temperature, weight, labelled_views
        self.labelled: Labelled | None = None

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the projection head."""
        return self.head.state()

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """Keep the labelled images, which may join the contrast; the head has the model's rate."""
        self.labelled, self.head.lr = labelled, labelled.lr
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "separate"
    ) -> tuple[Gradient, Metrics]:
        """All views of a replica pass together."""
        shown, who = unlabelled, _strangers(unlabelled)
        if self.labelled_views is not None:
            assert self.labelled is not None
            views, classes = self.labelled_views.views(model, self.labelled)
            shown = replace(unlabelled, x=torch.cat([unlabelled.x, views], dim=1))
            who = torch.cat([who, classes], dim=1)

        def loss(projected: Tensor) -> Tensor:
            return contrast(projected, who, self.temperature)

        return self.head.descend(model, shown, loss, weight=self.weight, statistics=statistics)


def _strangers(unlabelled: Unlabelled) -> Int[Tensor, "r n"]:
    """Every image is somebody, and nobody of any class; its views are the same."""
    own = -1 - torch.arange(unlabelled.images, device=unlabelled.x.device)
    return own.repeat(unlabelled.views).expand(len(unlabelled.x), -1)


def contrast(projected: Float[Tensor, "r n d"], who: Int[Tensor, "r n"], temperature: float) -> Float[Tensor, " r"]:
    """Every view looks, by cosine, among all others for those that show the same; several partners count as one."""
    rows = normalize(projected, dim=-1)
    similar = rows @ rows.mT / temperature
    itself = torch.eye(rows.shape[1], dtype=torch.bool, device=rows.device)
    partners = (who.unsqueeze(2) == who.unsqueeze(1)) & ~itself
    found = (similar * partners).sum(-1) / partners.sum(-1)
    return (similar.masked_fill(itself, -torch.inf).logsumexp(-1) - found).mean(-1)


def _build(table: ContrastiveSpec, context: Context) -> Contrastive:
    head = context.head("projection", table.head)
    shown = LabelledViews(Reaugment(_views(table).steps, context.scale)) if table.labelled else None
    return Contrastive(head, temperature=table.temperature, weight=table.weight, labelled_views=shown)


def _views(table: ContrastiveSpec) -> Views:
    return Views(2, named(table.augment))


ENTRY = signal_entry(
    ContrastiveSpec,
    _build,
    "contrastive",
    "one pass of two views of each unlabelled image to the features",
    "features",
    "pairs",
    "label-free",
    views=_views,
)
