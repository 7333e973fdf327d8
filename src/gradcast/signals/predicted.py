"""The signal *predicted*: h's guess of the logit gradient, back-propagated through the unlabelled images."""

from typing import ClassVar, Literal

from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Labelled, LogitSignal, Metrics, Unlabelled
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.gradients.movement import Movement
from gradcast.replicas.replicas import Replicas

Directions = Literal["learned", "frozen"]  # h as published; h as it was initialised, a control


class Predicted(LogitSignal):
    """Trains a gradient learner on every labelled batch and lets it stand in where labels are missing."""

    checkpointed: ClassVar[tuple[str, ...]] = ("learner",)

    def __init__(self, learner: GradientLearner, *, directions: Directions = "learned") -> None:
        self.learner, self.directions = learner, directions
        self.movement = Movement(learner)

    def state(self) -> dict[str, Tensor]:
        """The weights of h."""
        return {f"learner.{name}": weight.detach() for name, weight in self.learner.named_parameters()}

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """A new optimizer of h, which keeps what it has learned."""
        self.learner.renew(which)

    def learn(self, model: Replicas, labelled: Labelled) -> Metrics:
        """One step of h; without learned directions only the length of the labelled gradient is taken."""
        if self.directions != "learned":
            return {"tau": self.learner.length.observe(labelled.dz)}
        seen = self.learner.learn(labelled.z, labelled.dz, labelled.batch.y, eta=labelled.lr)
        return {
            "fitness": seen.loss,
            "gain": seen.gain,
            "cosine": seen.cosine,
            "tau": seen.tau,
            "movement": self.movement(),
        }

    def slopes(
        self, model: Replicas, z: Float[Tensor, "r u c"], unlabelled: Unlabelled, task: int
    ) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """``gbar_j``; the weights' gradient is ``sum_j (dz_j/dtheta)' gbar_j`` over images j: a sum, not a mean."""
        return self.learner.predict(z), {}
