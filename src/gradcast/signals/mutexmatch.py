"""The signal *mutexmatch*: FixMatch, and a second head says what an image is not where the model is not sure."""

from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradcast.core import Labelled, Metrics, Signal, Unlabelled
from gradcast.gradients.cross_entropy import mean_cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.replicas.heads import ABSENT
from gradcast.replicas.replicas import Replicas, Statistics
from gradcast.signals.fixmatch import MatchTable, decide, match
from gradcast.signals.head import Head
from gradcast.signals.signal_entry import signal_entry
from gradcast.specs.context import Context
from gradcast.specs.table import Positive


class MutexMatchSpec(MatchTable):
    """FixMatch, and a second head says what an image is not where the model is not sure."""

    name: Literal["mutexmatch"]
    k: Positive | Literal["all"] = "all"  # classes of the second head that its views are compared by


class MutexMatch(Signal):
    """FixMatch's loss, and the consistency of a true-negative classifier (TNC) where the model is not sure.

    TNC is a linear layer on the features with the model's own columns. It learns the least likely class of every image,
    labelled ones too, from features without a way back. Where the model is not sure of a weak view, TNC should say the
    same of both views; that reaches the features. ``weight`` multiplies all that the model learns.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(self, head: Head, *, weight: float = 1.0, threshold: float = 0.95, k: int | None = None) -> None:
        self.head, self.weight, self.threshold, self.k = head, weight, threshold, k
        self.label: Float[Tensor, "r u c"] | None = None
        self.labelled: Labelled | None = None

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the second head."""
        return self.head.state()

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """The images that pass beside the unlabelled ones; the head has the model's rate."""
        self.labelled, self.head.lr = labelled, labelled.lr
        return {}

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> tuple[Gradient, Metrics]:
        """Weak views, strong views and labelled images pass together."""
        assert self.labelled is not None
        count, told = unlabelled.images, dict[str, Tensor]()
        shown = replace(unlabelled, x=torch.cat([unlabelled.x, self.labelled.batch.x], dim=1))

        def loss(z: Tensor, features: Tensor) -> Tensor:
            self.label, sure = decide(z[:, :count], self.threshold)
            told["confident"] = sure.mean(-1)
            negatives = model.heads.columns(self.head(features), task)
            weak, strong = negatives[:, : 2 * count].chunk(2, dim=1)
            unsure = ((1 - sure) * self._disagreement(weak, strong)).mean(-1)
            taught = model.heads.columns(self.head(features.detach()), task)
            learned = match(self.label, sure, z[:, count : 2 * count]) + unsure
            return self.weight * learned + mean_cross_entropy(taught, least_likely(z))

        gradient, metrics = self.head.descend_with_logits(model, shown, task, loss, statistics=statistics)
        return gradient, metrics | told

    def _disagreement(self, weak: Float[Tensor, "r u c"], strong: Float[Tensor, "r u c"]) -> Float[Tensor, "r u"]:
        """Cross entropy of the strong view and the weak view's probabilities; beyond the first k both are zeros."""
        q = weak.detach().softmax(-1)
        if self.k is not None:
            dropped = q < q.topk(self.k, dim=-1).values[..., -1:]
            q = q.masked_fill(dropped, 0.0)
            strong = strong.masked_fill(dropped & exists(strong), 0.0)
        return -(q * strong.log_softmax(-1)).sum(-1)


def exists(z: Float[Tensor, "*any c"]) -> Bool[Tensor, "*any c"]:
    """Which logits are of classes that exist for the task."""
    return z.detach() > ABSENT


def least_likely(z: Float[Tensor, "*any c"]) -> Int[Tensor, "*any"]:
    """The class of the smallest logit, of those that exist."""
    return z.detach().masked_fill(~exists(z), torch.inf).argmin(-1)


def _build(table: MutexMatchSpec, context: Context) -> MutexMatch:
    head = context.head("mutexmatch", [context.model.heads.logits])
    k = None if table.k == "all" else table.k
    return MutexMatch(head, weight=table.weight, threshold=table.threshold, k=k)


ENTRY = signal_entry(
    MutexMatchSpec,
    _build,
    "MutexMatch",
    "one pass of two views of each unlabelled image and of the labelled batch; a second head",
    "features",
    views=lambda table: table.views,
)
