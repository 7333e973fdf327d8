"""One training step on few labels and many images without."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.core import Batch, Metrics, Unlabelled
from gradcast.devices import to_device
from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.sgd import Sgd
from gradcast.replicas.replicas import Replicas
from gradcast.semi.core import Moment, Part
from gradcast.semi.mix_up import MixUp
from gradcast.semi.schedule import Schedule
from gradcast.signals.mixtures import divergence
from gradcast.training.step import named_state
from gradcast.training.undo import undoing


class SemiStep:
    """The labelled loss (of mixtures, where there is mix-up) and what every part adds, one step of SGD.

    Passes of their own for labelled and unlabelled images, in this order: BatchNorm normalises each by its own
    statistics, and both move the running ones.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("count", "model", "sgd", "parts", "mix_up")

    def __init__(
        self, model: Replicas, schedule: Schedule, sgd: Sgd, parts: Sequence[Part] = (), mix_up: MixUp | None = None
    ) -> None:
        self.model, self.schedule, self.sgd, self.parts, self.mix_up = model, schedule, sgd, list(parts), mix_up
        self.skips = False  # whether a step that is not finite is undone
        self.count = 0  # steps begun
        self.rates = torch.zeros(2, dtype=model.theta.dtype, device=model.theta.device)  # learning rate, weight

    def __call__(self, batch: Batch, unlabelled: Unlabelled | None = None) -> Metrics:
        """Train on a labelled batch and, where there are parts, an unlabelled one."""
        self.prepare(batch, unlabelled)
        return self.advance(batch, unlabelled)

    def networks(self) -> list[Replicas]:
        """The model, and what the parts train beside it."""
        return [self.model, *(network for part in self.parts for network in part.networks())]

    def state(self) -> dict[str, Tensor]:
        """Weights and buffers of the model and of what the parts learned, one row a replica."""
        return named_state(self.model, {name: value for part in self.parts for name, value in part.state().items()})

    def kind(self, batch: Batch) -> Hashable:
        """All steps are of one kind."""
        return None

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """What the host decides before a step."""
        for network in self.networks():
            network.chance.begin(self.count)
        self.count += 1
        rates = [self.schedule.rate(self.count), self.schedule.weight(self.count)]
        self.rates.copy_(to_device(torch.tensor(rates, dtype=self.rates.dtype), self.rates.device))
        if self.mix_up is not None:
            self.mix_up.prepare(batch)
        for part in self.parts:
            assert unlabelled is not None
            part.prepare(unlabelled, self.count)

    def advance(self, batch: Batch, unlabelled: Unlabelled | None) -> Metrics:
        """The rest, on the device alone; ``finite`` says whether loss and weights are, or were before it was undone."""
        if not self.skips:
            return self._advance(batch, unlabelled)
        things = [self.networks(), self.sgd, self.parts]
        return undoing(lambda: self._advance(batch, unlabelled), things, self.model.count)

    def _advance(self, batch: Batch, unlabelled: Unlabelled | None) -> Metrics:
        rate, weight = self.rates.unbind()
        lr, metrics = rate.expand(self.model.count), dict[str, Tensor]()
        if unlabelled is None:
            loss, gradient = self._plain(batch)
        else:
            unseen = replace(unlabelled, truth=None)  # no part ever sees what unlabelled images show
            moment = Moment(self.model, batch, unseen, lr, weight)
            for part in self.parts:
                metrics |= part.watch(moment)
            loss, gradient = self._plain(batch) if self.mix_up is None else self._mixed(self.mix_up, moment)
            own, told = self._unlabelled(moment)
            gradient, metrics = gradient + own, metrics | told | pseudo_accuracy(self.parts, unlabelled.truth)
        self.sgd.step([self.model.theta], [gradient], lr)
        for part in self.parts:
            part.end(self.model)
        sums = [network.theta.sum(1) for network in self.networks()]
        finite = torch.isfinite(torch.stack([loss, *sums]).sum(0))
        return {"loss": loss, **metrics, "finite": finite}

    def _plain(self, batch: Batch) -> tuple[Float[Tensor, " r"], Float[Tensor, "r p"]]:
        made = self.model.forward(batch.x, batch.task)
        loss, dz = cross_entropy(made.z, batch.y)
        return loss, made.pull(dz).flat

    def _mixed(self, mix_up: MixUp, moment: Moment) -> tuple[Float[Tensor, " r"], Float[Tensor, "r p"]]:
        x, label = mix_up.mixtures(moment)
        made = self.model.forward(x, moment.batch.task)
        loss, dz = divergence(made.z, label)
        return loss, made.pull(dz).flat

    def _unlabelled(self, moment: Moment) -> tuple[Float[Tensor, "r p"], Metrics]:
        """One pass for all parts."""
        made = self.model.forward(moment.x, moment.batch.task, used=moment.unlabelled.used)
        total, metrics = torch.zeros_like(made.z), dict[str, Tensor]()
        for part in self.parts:
            dz, told = part.slopes(moment, made.z)
            total, metrics = total + dz, metrics | told
        return made.pull(total).flat, metrics


def pseudo_accuracy(parts: Sequence[Part], truth: Int[Tensor, "r u"] | None) -> Metrics:
    """How many unlabelled images the first part that labels them labelled rightly: a diagnosis, used for nothing."""
    label = next((part.label for part in parts if part.label is not None), None)
    if label is None or truth is None:
        return {}
    return {"pseudo_accuracy": (label.argmax(-1) == truth).to(label.dtype).mean(-1)}
