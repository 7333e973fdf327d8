"""The discriminator's own step: shared features of a batch against noise."""

from collections.abc import Hashable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.core import Batch, Feeds, Metrics
from gradcast.devices import to_device
from gradcast.learners.acl.adversary import features
from gradcast.learners.acl.discriminator import Discriminator
from gradcast.learners.acl.rehearsal import Rehearsal
from gradcast.replicas.replicas import Replicas
from gradcast.training.undo import undoing


@dataclass
class Judgement:
    """A step as ``capture`` knows it: names, rates and noise come from the host, before."""

    model: Replicas
    discriminator: Discriminator
    scale: float  # factor of its loss
    rehearsal: Rehearsal | None = None  # stored images that it sees too
    skips: bool = False  # whether a step that is not finite is undone
    name: str = field(default="", init=False)  # of the coming step's random numbers
    lr: Float[Tensor, " r"] | None = field(default=None, init=False)
    noise: dict[int, Float[Tensor, "r b f"]] = field(default_factory=dict, init=False)  # by number of images, in place

    def at(self, name: str, lr: Float[Tensor, " r"]) -> None:
        """Which step comes, and how fast each discriminator learns in it."""
        self.name = name
        self.lr = lr.clone() if self.lr is None else self.lr.copy_(lr)

    def __call__(self, batch: Batch, unlabelled: Feeds = ()) -> Metrics:
        """One step of the discriminator."""
        self.prepare(batch, unlabelled)
        return self.advance(batch, unlabelled)

    def networks(self) -> list[Replicas]:
        """The model makes the features."""
        return [self.model]

    def kind(self, batch: Batch) -> Hashable:
        """Whether somebody's weights were exchanged."""
        return self.discriminator.sgd.astray is None

    def prepare(self, batch: Batch, unlabelled: Feeds) -> None:
        """Draw the noise, every replica its own."""
        self.model.chance.begin(self.name)
        theta, size = self.model.theta, (self._seen(batch)[1].shape[1], self.discriminator.latent)
        drawn = self.discriminator.draws.noise(self.name, size, theta)
        if size[0] in self.noise:
            self.noise[size[0]].copy_(to_device(drawn, theta.device))
        else:
            self.noise[size[0]] = to_device(drawn, theta.device)

    def advance(self, batch: Batch, unlabelled: Feeds) -> Metrics:
        """Features in training mode, then its step on them and on the noise."""
        if not self.skips:
            return self._advance(batch)
        return undoing(lambda: self._advance(batch), [self.model, self.discriminator], self.model.count)

    def _advance(self, batch: Batch) -> Metrics:
        assert self.lr is not None
        x, tasks = self._seen(batch)
        with torch.no_grad():
            zs, _ = features(self.model, self.model.everything(x).z)
        noise = self.noise[tasks.shape[1]]
        loss = self.discriminator.learn(zs, noise, tasks + 1, rate=self.lr, scale=self.scale)
        sums = [weight.flatten(1).sum(1) for weight in self.discriminator.weights]
        return {"discriminator_loss": loss, "finite": torch.isfinite(torch.stack(sums).sum(0))}

    def _seen(self, batch: Batch) -> tuple[Float[Tensor, "r n *shape"], Int[Tensor, "r n"]]:
        """Images whose shared features it sees, and the task of each."""
        if self.rehearsal is None:
            return batch.x, batch.each_task
        return self.rehearsal.beside(batch)
