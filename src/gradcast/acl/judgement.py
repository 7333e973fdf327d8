"""The discriminator's own step: shared features of a batch against noise."""

from collections.abc import Hashable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gradcast.acl.adversary import features
from gradcast.acl.discriminator import Discriminator
from gradcast.acl.rehearsal import Rehearsal
from gradcast.core import Batch, Metrics, Unlabelled
from gradcast.environment import sent
from gradcast.replicas import Replicas


@dataclass
class Judgement:
    """A step as ``capture`` knows it: names, rates and noise come from the host, before."""

    model: Replicas
    discriminator: Discriminator
    scale: float  # factor of its loss
    rehearsal: Rehearsal | None = None  # stored images that it sees too
    name: str = field(default="", init=False)
    lr: Float[Tensor, " r"] | None = field(default=None, init=False)
    noise: dict[int, Float[Tensor, "r b f"]] = field(default_factory=dict, init=False)  # by number of images, in place

    def at(self, name: str, lr: Float[Tensor, " r"]) -> None:
        """Which step comes, and how fast each discriminator learns in it."""
        self.name = name
        self.lr = lr.clone() if self.lr is None else self.lr.copy_(lr)

    def __call__(self, batch: Batch, unlabelled: Unlabelled | None = None) -> Metrics:
        """One step of the discriminator."""
        self.prepare(batch, unlabelled)
        return self.advance(batch, unlabelled)

    def networks(self) -> list[Replicas]:
        """The model makes the features."""
        return [self.model]

    def kind(self, batch: Batch) -> Hashable:
        """Whether somebody's weights were exchanged."""
        return self.discriminator.sgd.astray is None

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """Draw the noise, every replica its own."""
        self.model.chance.begin(self.name)
        theta, size = self.model.theta, (self._seen(batch)[1].shape[1], self.discriminator.latent)
        drawn = self.discriminator.draws.noise(self.name, size, theta)
        if size[0] in self.noise:
            self.noise[size[0]].copy_(sent(drawn, theta.device))
        else:
            self.noise[size[0]] = sent(drawn, theta.device)

    def advance(self, batch: Batch, unlabelled: Unlabelled | None) -> Metrics:
        """Features in training mode, then its step on them and on the noise."""
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
