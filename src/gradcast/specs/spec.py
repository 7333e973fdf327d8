"""The specification of a run: one validated description, written in TOML or built in Python.

Unknown keys are errors that name the key and the nearest valid one.
"""

from collections import Counter
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from gradcast.data.images import Colour
from gradcast.devices import Arithmetic
from gradcast.epochs.schedule import Schedule
from gradcast.learners import registry as learners
from gradcast.learners.registry import (
    FEW_LABELS,
    LEARNERS,
    OWN_NETWORKS,
    SCHEDULED,
    AclSpec,
    DclSpec,
    GemSpec,
    HatSpec,
    LearnerSpec,
)
from gradcast.networks.registry import (
    AlexNetSpec,
    ConvLargeSpec,
    EfficientNetName,
    EfficientNetSpec,
    MlpSpec,
    ModelSpec,
    OwnNetworkSpec,
    SlimResNetSpec,
)
from gradcast.semi.table import SemiSpec
from gradcast.signals import words
from gradcast.signals.policy import Policy
from gradcast.signals.registry import (
    META,
    SIGNALS,
    ContrastiveSpec,
    DistilSpec,
    NoSignalSpec,
    PredictedSpec,
    PseudoLabelsSpec,
    SignalSpec,
    TrueLabelsSpec,
)
from gradcast.specs.table import Natural, Place, Positive, Share, Table, Words
from gradcast.streams.augment import AugmentationName
from gradcast.streams.pool_tables import POOLS, HeldOutSpec, PatchesSpec, PoolSpec
from gradcast.streams.scale import Normalise
from gradcast.streams.scenarios import Scenario

LONGEST_NAME = 100  # of a run or row, which become folders

SourceName = Literal[
    "digits", "mnist", "fashion-mnist", "cifar-10", "cifar-100", "svhn", "tiny-imagenet", "mini-imagenet",
    "folder", "npz", "python",
]  # fmt: skip


class StreamSpec(Table):
    """Which labelled tasks, in which portions."""

    source: SourceName = "digits"
    path: Place = ""  # where the source 'folder' or 'npz' lies
    size: Positive | Literal["own"] = "own"  # pixels a side
    colour: Colour = "own"
    normalise: Normalise = "unit"
    augment: list[AugmentationName] = []  # labelled training images
    scenario: Scenario = "rotated"
    tasks: Positive = 10
    classes_per_task: Positive | Literal["even"] = "even"  # split only
    class_order: Literal["natural", "shuffled", "seeded"] | list[Natural] = "natural"  # seeded: each seed has its own
    samples: Positive | Literal["all"] = "all"  # labelled images a task
    ratio: Share = 1.0  # share of them that is used
    batch: Positive = 10
    epochs: Positive = 1
    data_seed: int = 0  # angles, permutations and splits; the same for all seeds

    @model_validator(mode="after")
    def _paths_and_classes(self) -> "StreamSpec":
        if (self.source in ("folder", "npz")) != bool(self.path):
            if self.path:
                raise ValueError(
                    "stream.path belongs to the sources 'folder' and 'npz'; the others lie in the data folder"
                )
            raise ValueError(f"stream.path is missing: set it to your {self.source}, as in --set stream.path=VALUE")
        for key in ("classes_per_task", "class_order"):
            if self.scenario != "split" and getattr(self, key) != StreamSpec.model_fields[key].default:
                raise ValueError(
                    f"stream.{key} applies to the scenario 'split'; every {self.scenario} task has all classes"
                )
        return self


class EvaluationSpec(Table):
    """How accuracy is counted."""

    drop_last: bool = False  # the published code never looks at a test set's last image and counts it as wrong
    average: Positive = 1  # steps over which weights are averaged for evaluation; 1: as they are
    omitted_defaults: ClassVar[tuple[str, ...]] = ("average",)


# The choices by name, for messages and for rows that change a name.
CHOICES: dict[str, dict[str, type[Table]]] = {
    "model": {
        "mlp": MlpSpec,
        "slim-resnet18": SlimResNetSpec,
        **dict.fromkeys(get_args(EfficientNetName), EfficientNetSpec),
        "alexnet-like": AlexNetSpec,
        "conv-large": ConvLargeSpec,
        "python": OwnNetworkSpec,
    },
    "learner": LEARNERS,
    "signal": SIGNALS,
    "pool": POOLS,
}


class Setting(Table):
    """Everything that makes one row of results."""

    stream: StreamSpec = StreamSpec()
    model: ModelSpec = MlpSpec()
    learner: LearnerSpec = GemSpec()
    signal: SignalSpec = NoSignalSpec()
    policy: Policy = Policy()
    pool: PoolSpec = PatchesSpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    schedule: Schedule | None = None  # many epochs a task; None: a single pass, or stream.epochs of them
    semi: SemiSpec | None = None  # one task with few labels
    omitted_defaults: ClassVar[tuple[str, ...]] = ("schedule", "semi")

    @property
    def masked(self) -> bool:
        """Whether every task has columns of its own in the output layer."""
        choice = self.model.heads
        return choice == "masked" or (choice == "auto" and self.stream.scenario == "split")

    @model_validator(mode="after")
    def _tau_per_sample_pairs_images(self) -> "Setting":
        if isinstance(self.signal, PredictedSpec) and self.signal.tau == "per_sample":
            samples = self.stream.samples
            short = samples == "all" or round(self.stream.ratio * samples) % self.stream.batch != 0
            if self.policy.batch != self.stream.batch or (short and self.semi is None):
                whole = ", and stream.samples to a multiple of it" if self.semi is None else ""
                raise ValueError(
                    "signal.tau = 'per_sample' pairs labelled and unlabelled images: "
                    f"set policy.batch equal to stream.batch{whole}"
                )
        return self

    @model_validator(mode="after")
    def _signals_can_work(self) -> "Setting":
        if isinstance(self.signal, PredictedSpec) and self.signal.objective in META and self.semi is None:
            raise ValueError("signal.objective = 'meta' is for few labels: add a [semi], or set it to 'fitness'")
        known = isinstance(self.pool, HeldOutSpec) and self.semi is None
        if isinstance(self.signal, TrueLabelsSpec) and not known:
            raise ValueError(
                "the signal 'true-labels' needs images of a stream whose labels are known: set pool.name=held-out"
            )
        problem = _teacher_cannot(self, self.signal) if isinstance(self.signal, PseudoLabelsSpec) else None
        if problem is not None:
            raise ValueError(problem)
        if isinstance(self.signal, ContrastiveSpec) and self.policy.batch < 2:
            raise ValueError("the signal 'contrastive' tells images apart: set policy.batch to 2 or more")
        if isinstance(self.signal, DistilSpec) and self.policy.batchnorm == "frozen":
            raise ValueError(
                "the signal 'distil' compares passes with statistics of the unlabelled batch: set policy.batchnorm to "
                "'separate'"
            )
        return self

    @model_validator(mode="after")
    def _schedule_fits(self) -> "Setting":
        problem = _without_schedule(self) if self.schedule is None else _with_schedule(self)
        if problem is not None:
            raise ValueError(problem)
        return self


def _teacher_cannot(setting: Setting, signal: PseudoLabelsSpec) -> str | None:
    """What a network that labels images lacks here, in a sentence."""
    single = setting.schedule is None and setting.semi is None
    if signal.protected and not (single and isinstance(setting.learner, GemSpec | DclSpec)):
        return "signal.protected needs the memories of 'gem' or 'dcl' in a single pass: leave it out"
    if signal.outputs == "seen" and not (single and setting.masked):
        return "signal.outputs = 'seen' chooses among the heads of all tasks: set model.heads=masked, or leave it out"
    return None


def _without_schedule(setting: Setting) -> str | None:
    """What only works in many epochs a task, in a sentence."""
    learner = setting.learner
    if learner.name in FEW_LABELS and setting.semi is None:
        return f"the learner {learner.name!r} learns one task from few labels: add a [semi], as in semi.labels=100"
    if learner.name in SCHEDULED:
        return f"the learner {learner.name!r} trains many epochs a task: add a [schedule], as in schedule.epochs=200"
    if setting.stream.class_order == "seeded":
        return "stream.class_order = 'seeded' belongs to a [schedule]: add one, or set it to 'shuffled'"
    if (getattr(learner, "momentum", 0) or getattr(learner, "decay", 0)) and setting.semi is None:
        return "learner.momentum and learner.decay belong to a [schedule] or [semi]: leave them out"
    return None


def _with_schedule(setting: Setting) -> str | None:
    """What does not work there."""
    stream, signal = setting.stream, setting.signal
    problems = {
        "a [schedule] has many tasks and [semi] has one: leave one of them out": (
            setting.semi is not None or setting.learner.name in FEW_LABELS
        ),
        "a [schedule] splits the classes in each seed's own order: set stream.scenario=split and "
        "stream.class_order=seeded": (stream.scenario, stream.class_order) != ("split", "seeded"),
        "a [schedule] has epochs of its own: set schedule.epochs and leave stream.epochs out": stream.epochs != 1,
        "a [schedule] shows all images as they are: leave stream.samples, stream.ratio and stream.augment out": (
            (stream.samples, stream.ratio, stream.augment) != ("all", 1.0, [])
        ),
        "a [schedule] tests on all images, with the weights of the best epoch: leave [evaluation] out": (
            setting.evaluation != EvaluationSpec()
        ),
        "a [schedule] shows all images, and the pool 'held-out' is those that are not shown: choose another pool": (
            isinstance(setting.pool, HeldOutSpec)
        ),
        "in a [schedule] signals join the labelled gradient: set policy.update=joint": setting.policy.update != "joint",
        "signal.optimizer = 'adam' cannot start anew seed by seed, as a [schedule] asks: set signal.optimizer=sgd": (
            isinstance(signal, PredictedSpec) and signal.optimizer == "adam"
        ),
    }
    found = next((sentence for sentence, applies in problems.items() if applies), None)
    return found or (_own_networks(setting) if setting.learner.name in OWN_NETWORKS else None)


def _own_networks(setting: Setting) -> str | None:
    """What does not work with modules of each task."""
    model, learner, signal, policy = setting.model, setting.learner, setting.signal, setting.policy
    pairs = isinstance(learner, AclSpec) and learner.private_input == "labelled" and signal.name != "none"
    elsewhere = ("distil",) if isinstance(learner, AclSpec) else ("distil", "one-hot", "soft")
    parts = ("alexnet-like", "slim-resnet18") if isinstance(learner, AclSpec) else ("alexnet-like",)
    made_of = model.name in parts and (model.heads, model.weights, model.perturbation) == ("auto", "", 0)
    problems = {
        f"the learner {learner.name!r} makes its networks of model.name = {' or '.join(map(repr, parts))}: set that, "
        "and leave model.heads, model.weights and model.perturbation out": not made_of,
        f"the signal {signal.name!r} needs one network with the heads of all tasks, which {learner.name!r} has not: "
        "choose another": signal.name in elsewhere,
        "policy.project = false would let signals change what the gates of 'hat' protect: leave it out": (
            isinstance(learner, HatSpec) and not policy.project
        ),
        "learner.private_input = 'labelled' pairs labelled and unlabelled images: set policy.batch equal to "
        "stream.batch": pairs and policy.batch != setting.stream.batch,
    }
    return next((sentence for sentence, applies in problems.items() if applies), None)


def describe(setting: Setting) -> str:
    """A label for a setting: learner, signal, and what is evaluated where that is not the weights themselves."""
    averaged = "averaged weights" if setting.evaluation.average > 1 else ""
    parts = (learners.WORDS[setting.learner.name], words.describe(setting.signal), averaged)
    return " + ".join(filter(None, parts))


class Row(Table):
    """A labelled setting; the first row of a run is the base the others are compared with."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=LONGEST_NAME)]
    label: Words
    setting: Setting


class Spec(Table):
    """A run: rows that share seeds."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]*[a-z0-9_-])?$", max_length=LONGEST_NAME)]
    title: Words = ""
    seeds: Annotated[list[Natural], Field(min_length=1)] = [0, 1, 2, 3, 4]
    dtype: Arithmetic = "float32"
    rows: Annotated[list[Row], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_and_seeds_are_distinct(self) -> "Spec":
        for what, values in (("seed", map(str, self.seeds)), ("row", (row.name for row in self.rows))):
            most, times = Counter(values).most_common(1)[0]
            if times > 1:
                raise ValueError(f"{what} {most!r} appears {times} times; each may appear once")
        for table in ("schedule", "semi"):
            if len({getattr(row.setting, table) is None for row in self.rows}) > 1:
                raise ValueError(f"some rows have a [{table}] and others have none; give it to all, or run them apart")
        return self
