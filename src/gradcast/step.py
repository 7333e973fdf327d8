"""One training step: the only place where learner and signal meet."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Batch, Labelled, Learner, Metrics, Signal, Unlabelled
from gradcast.gradients.entropy import cross_entropy
from gradcast.gradients.gradient import Gradient
from gradcast.replicas import Replicas
from gradcast.signals.policy import Policy


@dataclass
class Step:
    """Labelled gradient, the signal's gradient, the learner's constraint, SGD.

    The order of the passes (memories, labelled, unlabelled) is behaviour: BatchNorm's running statistics see it.
    """

    model: Replicas
    learner: Learner
    lr: float
    signal: Signal | None = None
    policy: Policy = field(default_factory=Policy)
    count: int = field(default=0, init=False)  # steps begun

    def __call__(self, batch: Batch, unlabelled: Unlabelled | None = None) -> Metrics:
        """Train on one labelled batch and, where there is one, an unlabelled batch."""
        self.prepare(batch, unlabelled)
        return self.advance(batch, unlabelled)

    def prepare(self, batch: Batch, unlabelled: Unlabelled | None) -> None:
        """What the host decides before a step."""
        self.model.chance.begin(self.count)
        self.count += 1
        self.learner.prepare(self.model, batch)
        if self.signal is not None and unlabelled is not None:
            self.signal.prepare(unlabelled)

    def advance(self, batch: Batch, unlabelled: Unlabelled | None) -> Metrics:
        """The rest, on the device alone; ``finite`` says whether loss and weights still are."""
        self.learner.begin(self.model, batch)
        labelled, gradient, loss = self._labelled(batch)
        metrics: Metrics = {"loss": loss}
        if self.signal is not None:
            metrics |= self.signal.learn(labelled)
            metrics["unlabelled"] = _images(unlabelled, loss)
        if self.signal is None or unlabelled is None:
            metrics["projected"] = self._descend(gradient)
        elif self.policy.update == "joint":
            metrics |= self._joint(gradient, unlabelled, batch.task)
        else:
            metrics |= self._sequential(gradient, unlabelled, batch.task)
        self.learner.end(self.model)
        metrics["finite"] = torch.isfinite(loss + self.model.theta.sum(1))  # one sum, not a look at each
        return metrics

    def _labelled(self, batch: Batch) -> tuple[Labelled, Gradient, Float[Tensor, " r"]]:
        made = self.model.forward(batch.x, batch.task)
        loss, dz = cross_entropy(made.z, batch.y)
        return Labelled(made.z, dz, batch.y, self.lr), made.pull(dz), loss

    def _joint(self, gradient: Gradient, unlabelled: Unlabelled, task: int) -> Metrics:
        pseudo = self._pseudo(unlabelled, task)
        metrics = _shares(pseudo, gradient, unlabelled)
        if self.policy.project:
            return metrics | {"projected": self._descend(gradient + pseudo)}
        constrained, projected = self.learner.constrain(gradient)
        self.model.step(constrained + pseudo.flat, self.lr, (gradient + pseudo).factors, projected)
        return metrics | {"projected": projected}

    def _sequential(self, gradient: Gradient, unlabelled: Unlabelled, task: int) -> Metrics:
        """Two updates; the second sees the logits of the updated model, and this step's constraints once more."""
        projected = self._descend(gradient)
        pseudo = self._pseudo(unlabelled, task)
        metrics = _shares(pseudo, gradient, unlabelled)
        if self.policy.project:
            projected = projected | self._descend(pseudo)
        else:
            self.model.step(pseudo.flat, self.lr, pseudo.factors)
        return metrics | {"projected": projected}

    def _pseudo(self, unlabelled: Unlabelled, task: int) -> Gradient:
        assert self.signal is not None
        gradient = self.signal.gradient(self.model, unlabelled, task, statistics=self.policy.batchnorm)
        return gradient.where(unlabelled.used)

    def _descend(self, gradient: Gradient) -> Tensor:
        constrained, projected = self.learner.constrain(gradient)
        self.model.step(constrained, self.lr, gradient.factors, projected)
        return projected


def _images(unlabelled: Unlabelled | None, like: Tensor) -> Float[Tensor, " r"]:
    """How many unlabelled images each replica uses in this step."""
    return torch.zeros_like(like) if unlabelled is None else unlabelled.used.to(like.dtype) * unlabelled.x.shape[1]


def _shares(pseudo: Gradient, gradient: Gradient, unlabelled: Unlabelled) -> Metrics:
    """How much the signal weighs beside the labels; not a number where the replica used no unlabelled batch."""
    length = gradient.flat.norm(dim=1)
    ratio = pseudo.flat.norm(dim=1) / length.clamp_min(torch.finfo(length.dtype).tiny)
    return {"pseudo_ratio": torch.where(unlabelled.used, ratio, torch.nan)}
