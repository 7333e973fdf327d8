"""A second network that trains beside the model, for signals that let two networks learn from each other."""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Labelled, Learner
from gradcast.gradients.cross_entropy import class_slope
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.sgd import LearningRate, Sgd
from gradcast.replicas.replicas import Replicas


class Peer:
    """A network like the model, of its own initialisation, with the model's optimizer settings and learning rates.

    In every update it learns the labelled batch and what the learner replays beside it, shown as the learner shows
    them, and what a signal adds: one step along the sum. The learner's constraints and further terms are the model's.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("network", "sgd")

    def __init__(self, network: Replicas, sgd: Sgd | None = None, learner: Learner | None = None) -> None:
        self.network, self.sgd, self.learner = network, sgd, learner  # no optimizer: plain steps
        self.gradient: Float[Tensor, "r p"] | None = None  # of the update under way
        self.lr: LearningRate = 0.0

    def state(self, name: str) -> dict[str, Tensor]:
        """Its weights and buffers, under names that begin so."""
        named = self.network.parameters(self.network.theta) | self.network.buffers
        return {f"{name}.{key}": value for key, value in named.items()}

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """A new optimizer for these replicas."""
        if self.sgd is not None:
            self.sgd.renew(which)

    def learn(self, labelled: Labelled) -> None:
        """Begin an update with labelled images; replicas that have stopped keep their running statistics."""
        batch, replay, self.lr = labelled.batch, labelled.replay, labelled.lr
        x, y, tasks = batch.x, batch.y, batch.tasks
        if replay is not None:
            x, y = torch.cat([x, replay.x], dim=1), torch.cat([y, replay.y], dim=1)
            tasks = torch.cat([batch.each_task, replay.tasks], dim=1)
        x = x if self.learner is None else self.learner.shown(self.network, x)
        going = self.lr > 0 if isinstance(self.lr, Tensor) else None
        made = self.network.forward(x, batch.task, tasks=tasks, used=going)
        self.gradient = made.pull(class_slope(made.z, y)).flat

    def add(self, gradient: Gradient, used: Bool[Tensor, " r"]) -> None:
        """A signal's gradient, for the replicas that use their unlabelled images."""
        assert self.gradient is not None
        self.gradient = self.gradient + gradient.where(used).flat

    def step(self) -> None:
        """Step along the sum of all gradients added."""
        assert self.gradient is not None
        if self.sgd is None:
            self.network.step(self.gradient, self.lr)
        else:
            rates = None if self.network.rates is None else [self.network.rates]
            self.sgd.step([self.network.theta], [self.gradient], self.lr, rates)
