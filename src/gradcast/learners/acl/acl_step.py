"""What one labelled batch does: several updates of the model, each with its own unlabelled batch, then one of D."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Metrics, Unlabelled
from gradcast.epochs.core import Draw, Moment
from gradcast.learners.acl.adversary import Adversary
from gradcast.learners.acl.judgement import Judgement
from gradcast.training.capture import fastest
from gradcast.training.step import Step


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
        self, batch: Batch, draw: Draw, lr: Float[Tensor, " r"], judge_lr: Float[Tensor, " r"], moment: Moment
    ) -> Metrics:
        """Train on one labelled batch; ``draw`` gives the next unlabelled one or None."""
        if self.rehearsal is not None:
            self.rehearsal.begin(batch, moment.batch)
        told = [self._update(batch, draw, lr, moment.named(update)) for update in range(self.settings.updates)]
        judged = [self._judge(batch, judge_lr, moment, number) for number in range(self.settings.judgements)]
        finite = torch.stack([each.pop("finite") != 0 for each in (*told, *judged)]).all(0)
        return mean_over([*told, *judged]) | {"finite": finite}

    def _update(self, batch: Batch, draw: Draw, lr: Float[Tensor, " r"], name: str) -> Metrics:
        self.update.at(name, lr)
        return self.advance(batch, None if self.update.signal is None else self._beside(batch, draw()))

    def _judge(self, batch: Batch, lr: Float[Tensor, " r"], moment: Moment, number: int) -> Metrics:
        self.judgement.at(moment.named(f"judgement {number}"), lr)
        return self.judge(batch, None)

    def _beside(self, batch: Batch, unlabelled: Unlabelled | None) -> Unlabelled | None:
        """Unlabelled images with the labelled ones behind them, where there are equally many; else none."""
        if unlabelled is None or self.settings.private_input == "unlabelled":
            return unlabelled
        if unlabelled.x.shape[1] != batch.x.shape[1]:
            return None
        return replace(unlabelled, x=torch.cat([unlabelled.x, batch.x], dim=2))


def mean_over(updates: Sequence[Metrics]) -> Metrics:
    """Means over updates, of those that have something to say."""
    names = {name: None for update in updates for name in update}
    found = {name: [update[name].double() for update in updates if name in update] for name in names}
    return {name: torch.stack(values).nanmean(0) for name, values in found.items()}
