"""The seam of semi-supervised learning: what a step has at hand, and what unlabelled images may add to it.

One step, for R replicas at once:

    prepare                      what the host decides: learning rate, weight, random numbers
    part.watch                   running statistics: pseudo labels, a teacher's answers, a step of h
    x, y -> logits -> loss       the training pass of labelled images, or of mixtures of both kinds
    x~ -> logits -> part.slopes  the training pass of unlabelled images: every part gives a gradient at their logits
    optimizer step
    part.end
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Labelled, Metrics, Unlabelled
from gradcast.replicas.replicas import Pass, Replicas
from gradcast.signals.excursion import Excursion, explore, labelled_pass


@dataclass(frozen=True)
class Moment:
    """A step before its training passes; what several parts need is computed once, and only where one needs it."""

    model: Replicas
    batch: Batch
    unlabelled: Unlabelled
    lr: Float[Tensor, " r"]
    weight: Float[Tensor, ""]  # of what is ramped up

    @property
    def x(self) -> Float[Tensor, "r u *shape"]:
        """The unlabelled images, as the model trains on them."""
        return self.unlabelled.first_view().x

    @property
    def other_view(self) -> Float[Tensor, "r u *shape"]:
        """The same images augmented otherwise, where there are two views."""
        return self.unlabelled.x[:, self.unlabelled.images :]

    @cached_property
    def _labelled(self) -> tuple[Pass, Float[Tensor, "r b c"]]:
        return labelled_pass(self.model, self.batch)

    @property
    def labelled(self) -> Labelled:
        """The labelled batch by running statistics."""
        made, dz = self._labelled
        return Labelled(self.batch, made.z, dz, self.lr)

    @cached_property
    def excursion(self) -> Excursion:
        """What the model says of the unlabelled images along the gradient of the labelled batch."""
        made, dz = self._labelled
        return explore(self.model, self.x, made.pull(dz).flat, self.batch.task)


@runtime_checkable
class Part(Protocol):
    """What unlabelled images add to the gradient; as it stands, one that has nothing to prepare or to remember."""

    checkpointed: ClassVar[tuple[str, ...]] = ()
    views: ClassVar[int] = 1  # of each unlabelled image
    label: Float[Tensor, "r u c"] | None = None  # what it took this step's unlabelled images for, if it labels them

    def networks(self) -> Sequence[Replicas]:
        """Further networks that it trains."""
        return ()

    def state(self) -> dict[str, Tensor]:
        """What it has learned, one row a replica."""
        return {}

    def prepare(self, unlabelled: Unlabelled, step: int) -> None:
        """On the host, before the step of this number: draw random numbers."""
        return

    def watch(self, moment: Moment) -> Metrics:
        """Before the training passes."""
        return {}

    def slopes(self, moment: Moment, z: Float[Tensor, "r u c"]) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """The gradient at the unlabelled images' logits in the training pass, and what there is to say."""
        ...

    def end(self, model: Replicas) -> None:
        """After the optimizer step."""
        return
