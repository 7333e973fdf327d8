"""The signal *predicted*: h's guess of the logit gradient, back-propagated through the unlabelled images."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Labelled, Metrics, Unlabelled
from gradcast.gradients.gradient import Gradient
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
        self.noise: Tensor | None = None  # [R, U, C], this step's random directions
        self.initial = [p.detach().clone() for p in learner.parameters()]

    def prepare(self, unlabelled: Unlabelled) -> None:
        """Draw random directions where they are wanted.

        A replica that uses no unlabelled batch takes no random number, as if it were alone.
        """
        if self.directions != "random":
            return
        classes, images = self.learner.weights[-1].shape[-2], unlabelled.x
        drawn = torch.zeros(*images.shape[:2], classes, dtype=images.dtype)
        for replica in unlabelled.used.nonzero().flatten().tolist():
            drawn[replica] = torch.randn(drawn.shape[1:], generator=self.generators[replica], dtype=drawn.dtype)
        if self.noise is None:
            self.noise = torch.zeros_like(drawn, device=images.device)
        self.noise.copy_(drawn)

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
    ) -> Gradient:
        """``sum_j (dz_j/dtheta)' gbar_j`` over the unlabelled images j: a sum, not a mean."""
        made = model.forward(unlabelled.x, task, statistics=statistics, used=unlabelled.used)
        random = self.directions == "random"
        return made.pull(self.learner.rescale(self._drawn()) if random else self.learner.predict(made.z))

    def _drawn(self) -> Tensor:
        assert self.noise is not None
        return self.noise

    @torch.no_grad()
    def movement(self) -> Float[Tensor, " r"]:
        """How far h has moved from its initialisation, relative to its length there."""
        pairs = list(zip(self.learner.parameters(), self.initial, strict=True))
        moved = sum((now - then).flatten(1).square().sum(1) for now, then in pairs)
        length = sum(then.flatten(1).square().sum(1) for _, then in pairs)
        return (torch.as_tensor(moved) / torch.as_tensor(length)).sqrt()
