"""Adversarial continual learning as a learner of the loop: modules of every task, and who judges them."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.acl.discriminator import Discriminator
from gradcast.acl.settings import AclSettings
from gradcast.acl.step import AclStep
from gradcast.core import Batch, Metrics, Signal
from gradcast.epochs.core import RESET_FACTOR, Draw, Moment, Reset
from gradcast.epochs.plateau import Plateau
from gradcast.epochs.signalled import check_policy
from gradcast.epochs.snapshot import Snapshot
from gradcast.gradients.entropy import cross_entropy
from gradcast.gradients.sgd import Sgd
from gradcast.heads import Heads
from gradcast.networks.acl import AclNetwork
from gradcast.randomness import seeded
from gradcast.replicas import Replicas
from gradcast.signals.policy import Policy
from gradcast.stacking import stacked_weights


class Acl:
    """The model holds the shared module and the private module and head of the present task, in this order.

    Those of earlier tasks are set aside when their task is over and never change again: only the shared module can
    forget. ``network`` makes a new network out of torch's random numbers.
    """

    remembers: ClassVar[tuple[str, ...]] = ("training", "own", "start", "task", "judging")

    def __init__(
        self,
        network: Callable[[], AclNetwork],
        seeds: Sequence[int],
        settings: AclSettings | None = None,
        signal: Callable[[Replicas], Signal] | None = None,
        policy: Policy | None = None,
        *,
        device: torch.device,
        dtype: torch.dtype,
        judging: Plateau | None = None,
    ) -> None:
        self.network, self.seeds, self.settings = network, list(seeds), settings or AclSettings()
        self.model = replicas(network, seeds, device=device, dtype=dtype)
        discriminator = Discriminator(
            self.model.heads.extra // 2,
            self.settings.discriminator_units,
            seeds,
            self.model.theta,
            decay=self.settings.discriminator_decay,
        )
        sgd = Sgd(momentum=self.settings.momentum, decay=self.settings.decay)
        found = None if signal is None else signal(self.model)
        checked = check_policy(policy or Policy())
        self.training = AclStep(self.model, discriminator, self.settings, sgd, found, checked)
        self.judging = judging or Plateau(len(seeds), self.settings.discriminator_lr)
        self.task = 0
        self.own: list[Tensor] = []  # private module and head of every task that is over
        self.start = Snapshot()  # what the task began with

    @property
    def alone(self) -> slice:
        """Where the weights of private module and head lie; the shared module's come before."""
        shared = sum(size for name, size in zip(self.model.names, self.model.sizes, strict=True) if _shared(name))
        return slice(shared, self.model.theta.shape[1])

    def begin(self, task: int) -> None:
        """A private module and a head for the task, a new discriminator, new optimizers."""
        everybody = torch.ones(self.model.count, dtype=torch.bool)
        self.task = task
        if task > 0:
            self.model.theta[:, self.alone] = self._fresh("task", task)[:, self.alone]
        self.start.keep(self.trained(), everybody)
        self.training.discriminator.begin(task)
        self.judging.begin()
        self.training.sgd.renew()
        if self.training.signal is not None:
            self.training.signal.renew(everybody)

    def step(self, batch: Batch, draw: Draw, lr: Float[Tensor, " r"], moment: Moment) -> Metrics:
        """All updates of one labelled batch; the discriminators of replicas that do not move stand still too."""
        judge_lr = torch.where(lr > 0, self.judging.rates(lr), 0.0)
        return self.training(batch, draw, lr, judge_lr, moment)

    @torch.no_grad()
    def loss(self, batch: Batch) -> Metrics:
        """All three losses as they are weighed, and the discriminator's by itself."""
        outputs = self.model.everything(batch.x, statistics="frozen").z
        z = self.model.heads.columns(outputs, batch.task)
        _, told = self.training.feature_losses(outputs, batch)
        weighed = self.settings.adversarial * told["adversarial"] + self.settings.orthogonal * told["orthogonality"]
        hits = (z.argmax(-1) == batch.y).sum(-1)
        return {"loss": cross_entropy(z, batch.y)[0] + weighed, "hits": hits, **told}

    def ended(self, train: Metrics, going: Bool[Tensor, " r"]) -> None:
        """The discriminator's learning rate follows its loss on the training images."""
        self.training.discriminator.sgd.renew(self.judging.observe(train["adversarial"], going).dropped)

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """New optimizers of the model and of what the signal learns."""
        self.training.sgd.renew(which)
        if self.training.signal is not None:
            self.training.signal.renew(which)

    def restart(self, which: Bool[Tensor, " r"], how: Reset) -> None:
        """The weights that the task began with, or in the first task others, and another discriminator."""
        self.start.put_back(self.trained(), which)
        chosen = which.to(self.model.theta.device)
        if self.task == 0:
            self.model.theta[chosen] = self._fresh("again")[chosen]
        self.training.discriminator.restart(self.task, which)
        self.judging.lower(which, RESET_FACTOR)
        self.renew(which)
        if how == "reference":
            self.training.sgd.lose(chosen)
            self.training.discriminator.sgd.lose(chosen)

    def trained(self) -> dict[str, Tensor]:
        """Weights and running statistics; nobody needs a discriminator when its task is over."""
        return {"theta": self.model.theta, **self.model.buffers}

    def finish(self, task: int) -> None:
        """Set the task's private module and head aside."""
        self.own.append(self.model.theta[:, self.alone].clone())

    def weights_for(self, task: int) -> Float[Tensor, "r p"]:
        """The present shared module with the task's own private module and head."""
        return torch.cat([self.model.theta[:, : self.alone.start], self.own[task]], dim=1)

    def _fresh(self, *names: str | int) -> Float[Tensor, "r p"]:
        networks = made(self.network, self.seeds, *names)
        return stacked_weights(networks, self.model.theta.device, self.model.theta.dtype)[0]


def made(network: Callable[[], AclNetwork], seeds: Sequence[int], *names: str | int) -> list[AclNetwork]:
    """A network a seed, initialised from it and the names."""
    networks: list[AclNetwork] = []
    for seed in seeds:
        with seeded(seed, "acl", *names):
            networks.append(network())
    return networks


def replicas(
    network: Callable[[], AclNetwork], seeds: Sequence[int], *, device: torch.device, dtype: torch.dtype
) -> Replicas:
    """Stacked networks; what they say is logits, shared features, private features."""
    modules = made(network, seeds, "model")
    heads = Heads(modules[0].classes, extra=2 * modules[0].latent)
    return Replicas(modules, heads, device=device, dtype=dtype, seeds=seeds)


def _shared(name: str) -> bool:
    return name.startswith("shared.")
