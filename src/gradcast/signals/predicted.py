"""The signal *predicted*: h's guess of the logit gradient, back-propagated through the unlabelled images."""

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, Literal, get_args

from jaxtyping import Bool, Float
from pydantic import model_validator
from torch import Tensor

from gradcast.core import Labelled, LogitSignal, Metrics, Unlabelled
from gradcast.gradients.gradient_learner import ALPHA, HIDDEN, LOSS_SCALE, GradientLearner, Objective, OptimizerName
from gradcast.gradients.length import Tau
from gradcast.gradients.movement import Movement
from gradcast.gradients.stacked_linear import Activation
from gradcast.randomness import seeded
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.signals.meta_fitness import MetaFitness
from gradcast.signals.signal_entry import signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.specs.context import Context
from gradcast.specs.table import Momentum, Positive, Rate, Weight

Directions = Literal["learned", "frozen"]  # h as published; h as it was initialised, a control
# The labelled loss after a step of the model along h's predictions, by its gradient before that step; or after it.
Meta = Literal["meta", "meta-exact"]


class PredictedSpec(SignalTable):
    """Predicted gradients: a small network h predicts the logit gradient of unlabelled images."""

    name: Literal["predicted"]
    hidden: list[Positive] = list(HIDDEN)  # units of h's hidden layers
    alpha: Weight = ALPHA  # length of a predicted gradient, as a share of tau
    loss_scale: Weight = LOSS_SCALE  # factor on h's loss
    objective: Objective | Meta = "fitness"  # meta: the labelled loss after a step of the model along h's predictions
    tau: Tau = "batch"  # length of labelled logit gradients: mean over the batch, of the batch before, or of each image
    optimizer: OptimizerName = "sgd"  # of h
    lr: Rate | Literal["learner"] = "learner"  # step size of h; the published code takes the learner's
    activation: Activation = "relu"  # between h's layers
    bias: bool = False  # whether h's layers have a bias
    directions: Directions = "learned"  # frozen: h stays as it begins, a control
    momentum: Momentum = 0.0  # of h's own SGD
    decay: Weight = 0.0  # weight decay of h
    omitted_defaults: ClassVar[tuple[str, ...]] = ("momentum", "decay")

    @model_validator(mode="after")
    def _of_sgd(self) -> "PredictedSpec":
        if self.optimizer == "adam" and (self.momentum or self.decay):
            raise ValueError("signal.momentum and signal.decay are for signal.optimizer = 'sgd'; leave them out")
        return self

    @model_validator(mode="after")
    def _sees_every_batch(self) -> "PredictedSpec":
        if self.tau == "previous" and self.objective in get_args(Meta) and self.directions == "learned":
            raise ValueError(
                f"signal.tau = 'previous' needs every labelled batch, and signal.objective = {self.objective!r} sees "
                "those beside unlabelled images alone: set signal.objective to 'fitness' or 'cosine'"
            )
        return self


def parameters_of_h(table: PredictedSpec, classes: int) -> int:
    """Weights of one h that sees so many logits: a product for each layer, and with biases its outputs once more."""
    layers = list(pairwise((classes, *table.hidden, classes)))
    return sum(inputs * outputs + table.bias * outputs for inputs, outputs in layers)


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


def _build(table: PredictedSpec, context: Context) -> LogitSignal:
    h = gradient_learner(table, context.model.heads, context.seeds).to(context.model.theta)
    if table.objective in get_args(Meta) and table.directions == "learned":
        return MetaFitness(h, exact=table.objective == "meta-exact")
    return Predicted(h, directions=table.directions)


def _label(table: PredictedSpec) -> str:
    return "predicted gradients" if table.directions == "learned" else "frozen directions"


def gradient_learner(table: PredictedSpec, heads: Heads, seeds: Sequence[int]) -> GradientLearner:
    """One h a seed, initialised from it, stacked."""

    def make(replicas: Sequence[int]) -> GradientLearner:
        return GradientLearner(
            heads.width,
            table.hidden,
            alpha=table.alpha,
            loss_scale=table.loss_scale,
            objective="cosine" if table.objective == "cosine" else "fitness",
            lr=None if table.lr == "learner" else table.lr,
            optimizer=table.optimizer,
            momentum=table.momentum,
            decay=table.decay,
            tau=table.tau,
            activation=table.activation,
            bias=table.bias,
            absent=heads.absent,
            replicas=replicas,
        )

    stacked = make((len(seeds),))
    for replica, seed in enumerate(seeds):
        with seeded(seed, "gradient learner"):
            own = make(())
        for all_weights, weights in zip(stacked.parameters(), own.parameters(), strict=True):
            all_weights.data[replica] = weights.data
    return stacked


ENTRY = signal_entry(PredictedSpec, _build, _label, "one unlabelled pass, and a step of h, which is tiny")
