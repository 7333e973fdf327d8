"""Signals by name: what a specification says of each, and how it is made."""

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from gradcast.core import Learner, Signal
from gradcast.gradients.gradient_learner import (
    ALPHA,
    HIDDEN,
    LOSS_SCALE,
    GradientLearner,
    Objective,
    OptimizerName,
)
from gradcast.gradients.length import Length, Tau
from gradcast.gradients.stacked_linear import Activation
from gradcast.learners.gem import Gem
from gradcast.randomness import seeded, torch_generator
from gradcast.replicas.replicas import Replicas
from gradcast.signals.contrastive import Contrastive, LabelledViews
from gradcast.signals.distil import Distil
from gradcast.signals.forward_only import ForwardOnly
from gradcast.signals.head import Head
from gradcast.signals.meta_gradient import MetaGradient
from gradcast.signals.mixtures import Shares
from gradcast.signals.noise import Distribution, Noise
from gradcast.signals.policy import Views
from gradcast.signals.predicted import Directions, Predicted
from gradcast.signals.pseudo_labels import PseudoLabels
from gradcast.signals.rotation import Rotation
from gradcast.signals.true_labels import TrueLabels
from gradcast.specs.table import Momentum, Positive, Rate, Table, Weight
from gradcast.streams.augment import AUGMENTATIONS, AugmentationName
from gradcast.streams.scale import Scale

# The labelled loss after a step of the model along h's predictions, by its gradient before that step; or after it.
Meta = Literal["meta", "meta-exact"]
META: tuple[Meta, ...] = get_args(Meta)


class NoSignalSpec(Table):
    """Labelled images alone."""

    name: Literal["none"] = "none"


class PredictedSpec(Table):
    """Predicted gradients; see ``GradientLearner`` for the meaning of each."""

    name: Literal["predicted"]
    hidden: list[Positive] = list(HIDDEN)
    alpha: Weight = ALPHA
    loss_scale: Weight = LOSS_SCALE
    objective: Objective | Meta = "fitness"  # meta: the labelled loss after a step of the model, for few labels
    tau: Tau = "batch"
    optimizer: OptimizerName = "sgd"
    lr: Rate | Literal["learner"] = "learner"  # step size of h; the published code takes the learner's
    activation: Activation = "relu"
    bias: bool = False
    directions: Directions = "learned"
    momentum: Momentum = 0.0  # of h's own SGD
    decay: Weight = 0.0
    omitted_defaults: ClassVar[tuple[str, ...]] = ("momentum", "decay")

    @model_validator(mode="after")
    def _of_sgd(self) -> "PredictedSpec":
        if self.optimizer == "adam" and (self.momentum or self.decay):
            raise ValueError("signal.momentum and signal.decay are for signal.optimizer = 'sgd'; leave them out")
        return self


class LabelsTable(Table):
    """What gradients of labels have, whoever gives the labels."""

    weight: Weight = 1.0
    scaled: bool = False  # rows of the logit gradient have length alpha * tau, whatever the weight
    alpha: Weight = 0.001

    @model_validator(mode="after")
    def _one_length(self) -> "LabelsTable":
        if self.scaled and self.weight != 1:
            raise ValueError("signal.weight does nothing where signal.scaled is true; set signal.alpha instead")
        return self


class PseudoLabelsSpec(LabelsTable):
    """Labels of a second network: its best guess (one-hot) or its probabilities (soft)."""

    name: Literal["one-hot", "soft"]
    outputs: Literal["task", "seen"] = "task"  # classes that it chooses among
    protected: bool = False  # whether the memories of gem or dcl protect it too
    omitted_defaults: ClassVar[tuple[str, ...]] = ("outputs", "protected")


class TrueLabelsSpec(LabelsTable):
    """True labels of the images that the pool 'held-out' has: a bound for all that guess them."""

    name: Literal["true-labels"]


class MetaGradientSpec(Table):
    """Labels that would make a step on them good for the labelled batch."""

    name: Literal["meta-gradient"]
    weight: Weight = 1.0
    mix_up: Weight = 0.0  # parameter of the Beta distribution of mixtures with labelled images; 0: none are made
    omitted_defaults: ClassVar[tuple[str, ...]] = ("mix_up",)


class NoiseSpec(Table):
    """Random logit gradients."""

    name: Literal["noise"]
    distribution: Distribution = "normal"
    scaled: bool = False  # rows have length alpha * tau, as predicted ones have
    alpha: Weight = 0.001


class ForwardOnlySpec(Table):
    """The pass without the gradient."""

    name: Literal["forward-only"]


class ContrastiveSpec(Table):
    """Two views of an image look alike to the features."""

    name: Literal["contrastive"]
    weight: Weight = 0.3
    temperature: Rate = 0.2
    head: list[Positive] = [128, 64]  # widths of the projection head
    augment: list[AugmentationName] = ["resized-crop", "flip", "jitter"]  # what makes a view
    labelled: bool = False  # whether labelled and replayed images are shown too, views of one class as partners
    omitted_defaults: ClassVar[tuple[str, ...]] = ("labelled",)


class DistilSpec(Table):
    """The heads of past tasks say what they said before this task."""

    name: Literal["distil"]
    weight: Weight = 1.0
    temperature: Rate = 2.0


class RotationSpec(Table):
    """Which way is up."""

    name: Literal["rotation"]
    weight: Weight = 0.3


SignalSpec = Annotated[
    NoSignalSpec
    | PredictedSpec
    | PseudoLabelsSpec
    | TrueLabelsSpec
    | MetaGradientSpec
    | NoiseSpec
    | ForwardOnlySpec
    | ContrastiveSpec
    | DistilSpec
    | RotationSpec,
    Field(discriminator="name"),
]
SIGNALS: dict[str, type[Table]] = {
    "none": NoSignalSpec,
    "predicted": PredictedSpec,
    "one-hot": PseudoLabelsSpec,
    "soft": PseudoLabelsSpec,
    "true-labels": TrueLabelsSpec,
    "meta-gradient": MetaGradientSpec,
    "noise": NoiseSpec,
    "forward-only": ForwardOnlySpec,
    "contrastive": ContrastiveSpec,
    "distil": DistilSpec,
    "rotation": RotationSpec,
}


def views(spec: SignalSpec) -> Views:
    """What the signal wants to see of each image."""
    if isinstance(spec, ContrastiveSpec):
        return Views(2, tuple(AUGMENTATIONS[name] for name in spec.augment))
    return Views()


def signal(
    spec: SignalSpec,
    model: Replicas,
    seeds: Sequence[int],
    lr: float,
    teacher: Callable[[], Replicas],
    scale: Scale,
    learner: Learner | None = None,
) -> Signal | None:
    """What turns unlabelled images into gradients of ``model``, or None.

    ``teacher`` makes networks like it; ``scale`` is that of labelled images; ``learner`` may protect the teacher too.
    """
    classes = model.heads.width
    match spec:
        case NoSignalSpec():
            return None
        case PredictedSpec():
            return Predicted(gradient_learner(spec, classes, seeds).to(model.theta), directions=spec.directions)
        case PseudoLabelsSpec() | TrueLabelsSpec():
            return _of_labels(spec, teacher, learner)
        case MetaGradientSpec():
            return MetaGradient(weight=spec.weight, shares=Shares(spec.mix_up, seeds) if spec.mix_up else None)
        case NoiseSpec():
            drawn = [torch_generator(seed, "directions") for seed in seeds]
            return Noise(classes, drawn, distribution=spec.distribution, length=_length(spec))
        case ForwardOnlySpec():
            return ForwardOnly()
        case ContrastiveSpec():
            sizes = [model.featured.width, *spec.head]
            head = Head(sizes, seeds, "projection", model.theta, lr=lr)
            company = LabelledViews(views(spec).steps, scale) if spec.labelled else None
            return Contrastive(head, temperature=spec.temperature, weight=spec.weight, company=company)
        case DistilSpec():
            return Distil(weight=spec.weight, temperature=spec.temperature)
        case RotationSpec():
            head = Head([model.featured.width, 4], seeds, "rotation", model.theta, lr=lr)
            drawn = [torch_generator(seed, "turns") for seed in seeds]
            return Rotation(head, weight=spec.weight, generators=drawn)


def _of_labels(
    spec: PseudoLabelsSpec | TrueLabelsSpec, teacher: Callable[[], Replicas], learner: Learner | None
) -> Signal:
    if isinstance(spec, TrueLabelsSpec):
        return TrueLabels(weight=spec.weight, length=_length(spec))
    guard = None
    if spec.protected:
        assert isinstance(learner, Gem)  # a setting sees to that
        guard = learner.twin()
    return PseudoLabels(
        teacher(),
        soft=spec.name == "soft",
        weight=spec.weight,
        length=_length(spec),
        seen=spec.outputs == "seen",
        guard=guard,
    )


def _length(spec: LabelsTable | NoiseSpec) -> Length | None:
    return Length(spec.alpha) if spec.scaled else None


def gradient_learner(spec: PredictedSpec, classes: int, seeds: Sequence[int]) -> GradientLearner:
    """One h a seed, initialised from it, stacked."""

    def make(replicas: Sequence[int]) -> GradientLearner:
        return GradientLearner(
            classes,
            spec.hidden,
            alpha=spec.alpha,
            loss_scale=spec.loss_scale,
            objective="cosine" if spec.objective == "cosine" else "fitness",
            lr=None if spec.lr == "learner" else spec.lr,
            optimizer=spec.optimizer,
            momentum=spec.momentum,
            decay=spec.decay,
            tau=spec.tau,
            activation=spec.activation,
            bias=spec.bias,
            replicas=replicas,
        )

    stacked = make((len(seeds),))
    for replica, seed in enumerate(seeds):
        with seeded(seed, "gradient learner"):
            own = make(())
        for all_weights, weights in zip(stacked.parameters(), own.parameters(), strict=True):
            all_weights.data[replica] = weights.data
    return stacked
