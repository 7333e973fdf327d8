"""The part *predicted*, with the meta-objective as fitness: h learns which gradients help the labelled batch."""

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics
from gradcast.gradients.gradient_learner import GradientLearner
from gradcast.gradients.movement import Movement
from gradcast.gradients.sgd import along
from gradcast.semi.core import Moment, Part
from gradcast.signals.excursion import Excursion, explore, labelled_pass


class MetaFitness(Part):
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

    def watch(self, moment: Moment) -> Metrics:
        """One step of h; ``gain`` is what its predictions take from the labelled loss, to first order."""
        tau = self.learner.length.observe(moment.labelled.dz)
        seen = self._after_the_step(moment) if self.exact else moment.excursion
        derivative = seen.derivative()
        change = self.learner.follow(seen.here, -along(moment.lr, derivative) * derivative, eta=moment.lr)
        return {"tau": tau, "gain": -change, "movement": self.movement()}

    def slopes(self, moment: Moment, z: Float[Tensor, "r u c"]) -> tuple[Float[Tensor, "r u c"], Metrics]:
        """Its predictions, whole from the first step on."""
        return self.learner.predict(z), {}

    def _after_the_step(self, moment: Moment) -> Excursion:
        """Along the labelled gradient at the weights that a step along the predictions would lead to."""
        model, task = moment.model, moment.batch.task
        made = model.forward(moment.x, task, statistics="frozen")
        step = made.pull(self.learner.predict(made.z)).flat
        there, dz = labelled_pass(model, moment.batch, model.theta - along(moment.lr, step) * step)
        return explore(model, moment.x, there.pull(dz).flat, task)
