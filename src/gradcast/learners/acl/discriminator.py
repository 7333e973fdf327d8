"""The discriminator: from which task do these shared features come, or are they noise?"""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import leaky_relu

from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.gradients.sgd import LearningRate, Sgd
from gradcast.learners.acl.judge_draws import JudgeDraws, SeededDraws

FAKE = 0  # the answer for noise; k + 1 is the answer for task k


class Discriminator:
    """Three linear layers, a leaky ReLU after the first; one a replica, and new ones for every task."""

    checkpointed: ClassVar[tuple[str, ...]] = ("weights", "sgd")

    def __init__(
        self,
        latent: int,
        units: int,
        seeds: Sequence[int],
        like: Tensor,
        *,
        decay: float,
        draws: JudgeDraws | None = None,
    ) -> None:
        self.latent, self.units, self.like = latent, units, like
        self.draws = draws or SeededDraws(list(seeds), like)
        self.sgd = Sgd(decay=decay)
        self.begin(0)

    def begin(self, task: int) -> None:
        """New weights and a new optimizer; one answer more than in the task before."""
        self.weights = self._fresh(task)
        self.sgd.renew()

    def restart(self, task: int, which: Bool[Tensor, " r"]) -> None:
        """Other new weights for these replicas; what becomes of the optimizer is for the caller to say."""
        chosen = which.to(self.like.device)
        for weight, fresh in zip(self.weights, self._fresh(task, again=True), strict=True):
            weight[chosen] = fresh[chosen]

    def state(self) -> dict[str, Tensor]:
        """The weights by name, one row a replica, in place."""
        return {str(layer): weight for layer, weight in enumerate(self.weights)}

    def _fresh(self, task: int, *, again: bool = False) -> list[Tensor]:
        """Bias is the last column of each."""
        sizes = list(pairwise([self.latent, self.units, self.units, task + 2]))
        return self.draws.layers(task, sizes, again=again)

    def __call__(self, z: Float[Tensor, "r b f"]) -> Float[Tensor, "r b answers"]:
        """Logits of the answers."""
        return _answers(z, self.weights)

    def judge(
        self, z: Float[Tensor, "r b f"], answers: Int[Tensor, "r b"], *, reversal: float
    ) -> tuple[Float[Tensor, " r"], Float[Tensor, "r b f"]]:
        """Its loss on features, and the gradient that makes features harder to tell apart: the loss's, turned round."""
        with torch.enable_grad():
            features = z.detach().requires_grad_()
            said = self(features)
        loss, slope = cross_entropy(said.detach(), answers)
        (gradient,) = torch.autograd.grad(said, features, slope)
        return loss, -reversal * gradient

    def learn(
        self,
        z: Float[Tensor, "r b f"],
        fake: Float[Tensor, "r b f"],
        answers: Int[Tensor, "r b"],
        *,
        rate: LearningRate,
        scale: float = 1.0,
    ) -> Float[Tensor, " r"]:
        """One step on features and as much noise; the loss before it."""
        with torch.enable_grad():
            weights = [weight.detach().requires_grad_() for weight in self.weights]
            said = [_answers(each.detach(), weights) for each in (z, fake)]
        right = (answers, torch.full_like(answers, FAKE))
        judged = [cross_entropy(each.detach(), own) for each, own in zip(said, right, strict=True)]
        gradients = torch.autograd.grad(said, weights, [scale * slope for _, slope in judged])
        self.sgd.step(self.weights, gradients, rate)
        return scale * (judged[0][0] + judged[1][0])


def _answers(z: Float[Tensor, "r b f"], weights: Sequence[Tensor]) -> Float[Tensor, "r b answers"]:
    first, second, third = weights
    return _linear(_linear(leaky_relu(_linear(z, first)), second), third)


def _linear(x: Float[Tensor, "r b f"], weight: Float[Tensor, "r o f1"]) -> Float[Tensor, "r b o"]:
    return torch.baddbmm(weight[..., -1:].mT, x, weight[..., :-1].mT)
