"""CFA's amalgamation: a student learns from a new teacher and from the student before it, on exemplars alone."""

from collections.abc import Hashable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from gradcast.core import Batch, Feeds, Metrics
from gradcast.gradients.optimizer import AdamW
from gradcast.learners.common_space import CommonSpace, element_divergence
from gradcast.replicas.replicas import Replicas

FEATURES = 10.0  # weight of the features' loss, times 1 - alpha
FAST = 10.0  # times the learning rate: that of the output layer and of the common space


@dataclass
class Amalgamation:
    """``alpha KL(label || student) + (1 - alpha) 10 [sum_i KL(h_i || h) + beta sum_i MSE(decoded h_i, features_i)]``.

    A step as ``capture`` knows it. ``y`` of its batches are places of exemplars, whose label and teachers' features
    are known beforehand.
    """

    model: Replicas
    space: CommonSpace
    label: Float[Tensor, "r n c"]  # outputs that the student learns, of all exemplars
    teachers: tuple[Float[Tensor, "r n f"], ...]  # their features
    lr: float
    alpha: float
    beta: float
    adam: AdamW = field(default_factory=AdamW, init=False)
    factors: list[Tensor] = field(init=False)  # on the rate, one for each of ``weights``

    def __post_init__(self) -> None:
        fast = self.model.theta.new_tensor(FAST)
        self.factors = [_factors(self.model), *[fast] * len(self.space.weights)]

    def __call__(self, batch: Batch, unlabelled: Feeds = ()) -> Metrics:
        """One step of the student and of the common space."""
        return self.advance(batch, unlabelled)

    def networks(self) -> list[Replicas]:
        """Networks whose weights the step moves: the student alone."""
        return [self.model]

    def kind(self, batch: Batch) -> Hashable:
        """All steps are alike."""
        return None

    def prepare(self, batch: Batch, unlabelled: Feeds) -> None:
        """Nothing is left to the host."""

    def advance(self, batch: Batch, unlabelled: Feeds) -> Metrics:
        """Gradients of the loss, and Adam."""
        made, heads, width = self.model.embed(batch.x, statistics="update"), self.model.heads, self.model.featured.width
        every = torch.arange(len(batch.y), device=batch.y.device).unsqueeze(1)
        label, *teachers = (each[every, batch.y] for each in (self.label, *self.teachers))
        with torch.enable_grad():
            features, outputs = (each.detach().requires_grad_() for each in made.whole.tensor_split([width], -1))
            apart = element_divergence(heads.seen(label, batch.task), heads.seen(outputs, batch.task))
            away = self.space.loss(features, teachers, self.beta)
            loss = self.alpha * apart + (1 - self.alpha) * FEATURES * away
            slope, dz, *further = torch.autograd.grad(loss.sum(), [features, outputs, *self.space.weights])
        gradient = made.pull(slope, pad(dz, (width, 0))).flat
        self.adam.step([self.model.theta, *self.space.weights], [gradient, *further], self.lr, self.factors)
        return {"loss": loss.detach()}


def _factors(model: Replicas) -> Float[Tensor, " p"]:
    """On the learning rate of every weight of the student."""
    factors = torch.ones_like(model.theta[0]) if model.rates is None else model.rates.clone()
    for name, place in model.places.items():
        if name.startswith(f"{model.featured.name}."):
            factors[place] *= FAST
    return factors
