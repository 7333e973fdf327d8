"""What one labelled batch does: several updates of the model, each with its own unlabelled batch, then one of D."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Feeds, Metrics, Unlabelled
from gradcast.learners.acl.adversary import Adversary
from gradcast.learners.acl.judgement import Judgement
from gradcast.training.capture import fastest
from gradcast.training.step import Step
from gradcast.training.trainer import Draw, Turn


class AclStep:
    """Updates are steps as everywhere, with the terms of ``Adversary``.

    The unlabelled pass shows the shared module unlabelled images and the private module the labelled ones beside them.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("update",)

    def __init__(self, update: Step, adversary: Adversary) -> None:
        self.update, self.settings = update, adversary.settings
        self.rehearsal, scale = adversary.rehearsal, self.settings.discriminator_scale
        self.judgement = Judgement(update.model, adversary.discriminator, scale, self.rehearsal)
        self.advance, self.judge = fastest(update), fastest(self.judgement)

    def __call__(
        self, batch: Batch, draw: Draw, lr: Float[Tensor, " r"], judge_lr: Float[Tensor, " r"], turn: Turn
    ) -> Metrics:
        """Train on one labelled batch; ``draw`` gives the next unlabelled ones."""
        if self.rehearsal is not None:
            self.rehearsal.begin(batch, turn.place)
        self.judgement.skips = self.update.skips
        told = [self._update(batch, draw, lr, turn, update) for update in range(self.settings.updates)]
        judged = [self._judge(batch, judge_lr, turn, number) for number in range(self.settings.judgements)]
        finite = torch.stack([each.pop("finite") != 0 for each in (*told, *judged)]).all(0)
        return mean_over([*told, *judged]) | {"finite": finite}

    def _update(self, batch: Batch, draw: Draw, lr: Float[Tensor, " r"], turn: Turn, update: int) -> Metrics:
        self.update.at(turn.name(update), lr, turn.ramp)
        return self.advance(batch, self._beside(batch, draw()) if self.update.signals else ())

    def _judge(self, batch: Batch, lr: Float[Tensor, " r"], turn: Turn, number: int) -> Metrics:
        self.judgement.at(turn.name(f"judgement {number}"), lr)
        return self.judge(batch, ())

    def _beside(self, batch: Batch, unlabelled: Feeds) -> Feeds:
        """Unlabelled images with the labelled ones behind them, where there are equally many; else none."""
        if self.settings.private_input == "unlabelled":
            return unlabelled
        if any(each.images != batch.x.shape[1] for each in unlabelled):
            return ()
        return tuple(_with_labelled(each, batch) for each in unlabelled)


def _with_labelled(unlabelled: Unlabelled, batch: Batch) -> Unlabelled:
    """Every view of an image with the labelled image of the same number behind it."""
    behind = torch.cat([batch.x] * unlabelled.views, dim=1)
    return replace(unlabelled, x=torch.cat([unlabelled.x, behind], dim=2))


def mean_over(updates: Sequence[Metrics]) -> Metrics:
    """Each metric's mean over the updates that have it."""
    names = {name: None for update in updates for name in update}
    found = {name: [update[name].double() for update in updates if name in update] for name in names}
    return {name: torch.stack(values).nanmean(0) for name, values in found.items()}
