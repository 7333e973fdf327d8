"""The signal *predicted*: h's guess of the logit gradient, back-propagated through the unlabelled images."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Labelled, Metrics, Unlabelled
from gradcast.gradients.learner import GradientLearner
from gradcast.replicas import Replicas, Statistics

# learned: h as published. frozen: h stays at its initialisation. random: fresh unit directions of the same length
# (the controls).
Directions = Literal["learned", "frozen", "random"]


class Predicted:
    """Trains a gradient learner on every labelled batch and lets it stand in where labels are missing."""

    def __init__(
        self,
        learner: GradientLearner,
        *,
        directions: Directions = "learned",
        generators: list[torch.Generator] | None = None,
    ) -> None:
        if directions == "random" and not generators:
            raise ValueError("random directions need one generator a replica")
        self.learner, self.directions = learner, directions
        self.generators = generators or []
        self.initial = [p.detach().clone() for p in learner.parameters()]

    def learn(self, labelled: Labelled) -> Metrics:
        """One step of h; without learned directions only the length of the labelled gradient is taken."""
        if self.directions != "learned":
            self.learner.observe(labelled.dz)
            assert self.learner.tau is not None
            return {"tau": self.learner.tau.mean(-1)}
        seen = self.learner.learn(labelled.z, labelled.dz, labelled.y, eta=labelled.lr)
        return {
            "fitness": seen.loss,
            "gain": seen.gain,
            "cosine": seen.cosine,
            "tau": seen.tau,
            "movement": self.movement(),
        }

    def gradient(
        self, model: Replicas, unlabelled: Unlabelled, task: int, *, statistics: Statistics = "update"
    ) -> Float[Tensor, "r p"]:
        """``sum_j (dz_j/dtheta)' gbar_j`` over the unlabelled images j: a sum, not a mean."""
        theta = model.theta.detach().requires_grad_()
        z = model.logits(theta, unlabelled.x, task, statistics=statistics, used=unlabelled.used)
        random = self.directions == "random"
        pseudo = self.learner.rescale(self._random(z, unlabelled)) if random else self.learner.predict(z)
        return torch.autograd.grad(z, theta, pseudo)[0]

    @torch.no_grad()
    def movement(self) -> Float[Tensor, " r"]:
        """How far h has moved from its initialisation, relative to its length there."""
        pairs = list(zip(self.learner.parameters(), self.initial, strict=True))
        moved = sum((now - then).flatten(1).square().sum(1) for now, then in pairs)
        length = sum(then.flatten(1).square().sum(1) for _, then in pairs)
        return (torch.as_tensor(moved) / torch.as_tensor(length)).sqrt()

    def _random(self, z: Float[Tensor, "r u c"], unlabelled: Unlabelled) -> Float[Tensor, "r u c"]:
        """Fresh directions; a replica that uses no unlabelled batch takes no random number, as if it were alone."""
        drawn = torch.zeros_like(z, device="cpu")
        for replica in unlabelled.used.nonzero().flatten().tolist():
            drawn[replica] = torch.randn(z.shape[1:], generator=self.generators[replica], dtype=z.dtype)
        return drawn.to(z.device)
