"""One training step: the only place where learner and signal meet."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Labelled, Learner, Metrics, Signal, Unlabelled
from gradcast.gradients.entropy import cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.gradients.sgd import LearningRate, Sgd
from gradcast.passes.factors import Factors
from gradcast.replicas import Replicas
from gradcast.signals.policy import Policy
from gradcast.signals.pseudo import images_used, pseudo_gradient
from gradcast.undo import undoing


@dataclass
class Step:
    """Labelled gradient, the signal's gradient, the learner's constraint, SGD.

    The order of the passes (memories, labelled, unlabelled) is behaviour: BatchNorm's running statistics see it.
    """

    remembers: ClassVar[tuple[str, ...]] = ("count", "model", "learner", "signal", "sgd")
    model: Replicas
    learner: Learner
    lr: LearningRate
    signal: Signal | None = None
    policy: Policy = field(default_factory=Policy)
    sgd: Sgd | None = None  # with momentum or weight decay; None: plain steps
    skips: bool = False  # whether a step that is not finite is undone
    count: int = field(default=0, init=False)  # steps begun
    name: str | None = field(default=None, init=False)  # of the coming step's random numbers; None: its number

    def __call__(self, batch: Batch, unlabelled: Unlabelled | None = None) -> Metrics:
        """Train on one labelled batch and, where there is one, an unlabelled batch."""
        self.prepare(batch, unlabelled)
        return self.advance(batch, unlabelled)

    def at(self, name: str, lr: Float[Tensor, " r"]) -> None:
        """The coming step has random numbers and learning rates of its own; the latter keep their place in memory."""
        self.name = name
        self.lr = self.lr.copy_(lr) if isinstance(self.lr, Tensor) else lr.clone()

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """What the host decides before a step."""
        for network in self.networks():
            network.chance.begin(self.count if self.name is None else self.name)
        self.count += 1
        self.learner.prepare(self.model, batch)
        if self.signal is not None and unlabelled is not None:
            self.signal.prepare(unlabelled)

    def state(self) -> dict[str, Tensor]:
        """Weights and buffers of the model and of what the signal learned, one row a replica."""
        return named_state(self.model, {} if self.signal is None else self.signal.state())

    def kind(self, batch: Batch) -> Hashable:
        """What else than task and sizes decides which operations a step consists of."""
        return self.learner.replay() is None, self.sgd is None or self.sgd.astray is None

    def networks(self) -> list[Replicas]:
        """The model, and networks that the signal trains beside it."""
        return [self.model, *(() if self.signal is None else self.signal.networks())]

    def advance(self, batch: Batch, unlabelled: Unlabelled | None) -> Metrics:
        """The rest, on the device alone; ``finite`` says whether loss and weights are, or were before it was undone."""
        if not self.skips:
            return self._advance(batch, unlabelled)
        things = [self.networks(), self.signal, self.learner, self.sgd]
        return undoing(lambda: self._advance(batch, unlabelled), things, self.model.count)

    def _advance(self, batch: Batch, unlabelled: Unlabelled | None) -> Metrics:
        self.learner.begin(self.model, batch)
        labelled, gradient, loss = self._labelled(batch)
        metrics: Metrics = {"loss": loss}
        own = self.learner.terms(self.model, batch)
        if own is not None:
            gradient, metrics = gradient + own[0], metrics | own[1]
        if self.signal is not None:
            metrics |= self.signal.learn(self.model, labelled)
            metrics["unlabelled"] = images_used(unlabelled, loss)
        if self.signal is None or unlabelled is None:
            metrics["projected"] = self._descend(gradient)
        elif self.policy.update == "joint":
            metrics |= self._joint(gradient, unlabelled, batch.task)
        else:
            metrics |= self._sequential(gradient, unlabelled, batch.task)
        self.learner.end(self.model)
        sums = [network.theta.sum(1) for network in self.networks()]  # one sum, not a look at each
        metrics["finite"] = torch.isfinite(torch.stack([loss, *sums]).sum(0))
        return metrics

    def _labelled(self, batch: Batch) -> tuple[Labelled, Gradient, Float[Tensor, " r"]]:
        """The gradient is that of batch and replayed images together, the rest is of the batch alone."""
        replay = self.learner.replay()
        if replay is None:
            made = self.model.forward(batch.x, batch.task if batch.tasks is None else batch.tasks)
            loss, dz = cross_entropy(made.z, batch.y)
            return Labelled(batch, made.z, dz, self.lr), made.pull(dz), loss
        tasks = torch.cat([batch.each_task, replay.tasks], dim=1)
        made = self.model.forward(torch.cat([batch.x, replay.x], dim=1), tasks)
        z = made.z[:, : batch.x.shape[1]]
        loss, dz = cross_entropy(z, batch.y)
        gradient = made.pull(cross_entropy(made.z, torch.cat([batch.y, replay.y], dim=1))[1])
        return Labelled(batch, z, dz, self.lr, replay), gradient, loss

    def _joint(self, gradient: Gradient, unlabelled: Unlabelled, task: int) -> Metrics:
        pseudo, metrics = self._pseudo(gradient, unlabelled, task)
        if self.policy.project:
            return metrics | {"projected": self._descend(gradient + pseudo)}
        constrained, projected = self.learner.constrain(gradient)
        self._move(constrained + pseudo.flat, (gradient + pseudo).factors, projected)
        return metrics | {"projected": projected}

    def _sequential(self, gradient: Gradient, unlabelled: Unlabelled, task: int) -> Metrics:
        """Two updates; the second sees the logits of the updated model, and this step's constraints once more."""
        projected = self._descend(gradient)
        pseudo, metrics = self._pseudo(gradient, unlabelled, task)
        if self.policy.project:
            projected = projected | self._descend(pseudo)
        else:
            self._move(pseudo.flat, pseudo.factors)
        return metrics | {"projected": projected}

    def _pseudo(self, gradient: Gradient, unlabelled: Unlabelled, task: int) -> tuple[Gradient, Metrics]:
        """The signal's gradient under this step's policy and constraints."""
        assert self.signal is not None
        past = self.learner.protected()
        return pseudo_gradient(self.signal, self.model, unlabelled, gradient, task=task, policy=self.policy, past=past)

    def _descend(self, gradient: Gradient) -> Tensor:
        constrained, projected = self.learner.constrain(gradient)
        self._move(constrained, gradient.factors, projected)
        return projected

    def _move(self, gradient: Tensor, made_of: tuple[Factors, ...] | None, changed: Tensor | None = None) -> None:
        if self.sgd is None:
            self.model.step(gradient, self.lr, made_of, changed)
        else:
            self.sgd.step([self.model.theta], [gradient], self.lr)


def named_state(model: Replicas, learned: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A model's weights and buffers, and what was learned beside it, under the names that a run stores them by."""
    own = model.parameters(model.theta) | model.buffers
    return {f"model.{name}": value for name, value in own.items()} | {
        f"signal.{name}": value for name, value in learned.items()
    }
