"""The signal *predicted* with the meta-objective as fitness: h learns which gradients help the labelled batch."""

from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import LogitSignal, Metrics, Preview, Unlabelled
from gradcast.gradients.excursion import Excursion, explore, labelled_pass
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.gradients.movement import Movement
from gradcast.gradients.sgd import along
from gradcast.replicas.replicas import Replicas


class MetaFitness(LogitSignal):
    """``h`` sees the logits of unlabelled images; its fitness is the labelled loss after a step along its predictions.

    To first order that loss changes by ``-lr`` times the derivative of those logits along the labelled gradient, which
    the excursion tells. ``exact`` takes the labelled gradient after the step, not before it: four more passes.
    Labels enter by that gradient alone.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("learner",)

    def __init__(self, learner: GradientLearner, *, exact: bool = False) -> None:
        self.learner, self.exact = learner, exact
        self.movement = Movement(learner)

    def state(self) -> dict[str, Tensor]:
        """The weights of h."""
        return {f"learner.{name}": weight.detach() for name, weight in self.learner.named_parameters()}

    def renew(self, which: Bool[Tensor, " r"]) -> None:
        """A new optimizer of h, which keeps what it has learned."""
        self.learner.renew(which)

    def look(self, preview: Preview) -> Metrics:
        """One step of h; ``gain`` is what its predictions take from the labelled loss, to first order."""
        tau = self.learner.length.observe(preview.labelled_pass[1])
        seen = self._after_the_step(preview) if self.exact else preview.excursion
        derivative = seen.derivative()
        change = self.learner.follow(seen.here, -along(preview.lr, derivative) * derivative, eta=preview.lr)
        return {"tau": tau, "gain": -change, "movement": self.movement()}

    def slopes(
        self, model: Replicas, z: Float[Tensor, "r u c"], unlabelled: Unlabelled, task: int
    ) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """Its predictions, whole from the first step on."""
        return self.learner.predict(z), {}

    def _after_the_step(self, preview: Preview) -> Excursion:
        """Along the labelled gradient at the weights that a step along the predictions would lead to."""
        model, batch = preview.model, preview.batch
        made = model.forward(preview.x, batch.task, statistics="frozen")
        step = made.pull(self.learner.predict(made.z)).flat
        there, dz = labelled_pass(model, batch.x, batch.y, batch.task, model.theta - along(preview.lr, step) * step)
        return explore(model, preview.x, there.pull(dz).flat, batch.task)
