"""The specification of a run: one validated description, written in TOML or built in Python.

Unknown keys are errors that name the key and the nearest valid one.
"""

from collections import Counter
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from gradcast.data.images import Colour
from gradcast.data.registry import SOURCES
from gradcast.devices import Arithmetic
from gradcast.errors import GradcastError
from gradcast.head_start.head_start_table import HeadStartSpec
from gradcast.learners.gem import GemSpec
from gradcast.learners.registry import LEARNERS, LearnerSpec
from gradcast.networks.registry import NETWORKS, MlpSpec, ModelSpec
from gradcast.replicas.heads import HeadsKind, TaskKnowledge
from gradcast.signals.policy import Policy
from gradcast.signals.registry import SIGNALS, NoSignalSpec, SignalSpec
from gradcast.specs.table import (
    EpochCount,
    Natural,
    Pixels,
    Place,
    Positive,
    Probability,
    Share,
    Table,
    TaskCount,
    Words,
    nearest,
)
from gradcast.streams.named_augmentations import AnyAugmentation
from gradcast.streams.pool_tables import POOLS, PatchesSpec, PoolSpec
from gradcast.streams.scale import Normalise
from gradcast.streams.scenarios import Scenario
from gradcast.training.schedule_tables import SCHEDULES, ConstantSpec, PlateauSpec, ScheduleSpec, StepsSpec

AT_A_PATH = ("folder", "npz", "tasks")  # sources that lie where stream.path says
LONGEST_NAME = 100  # of a run or row, which become folders


def _known_source(name: str) -> str:
    if name not in SOURCES:
        raise ValueError(f"stream.source = {name!r} is unknown{nearest(name, SOURCES)}")
    return name


class StreamSpec(Table):
    """Which labelled tasks, in which portions."""

    source: Annotated[str, AfterValidator(_known_source)] = "digits"  # dataset; gradcast methods lists all
    path: Place | list[Place] = ""  # where the source 'folder', 'npz' or 'tasks' lies; of tasks also a list
    size: Pixels | Literal["own"] = "own"  # pixels a side
    colour: Colour = "own"  # own: as the source has it
    normalise: Normalise = "unit"  # unit: from 0 to 1; standard: mean 0 and deviation 1; or published constants
    augment: list[AnyAugmentation] = []  # labelled training images
    scenario: Scenario = "rotated"  # what tells tasks apart; own: the source says it
    tasks: TaskCount | Literal["own"] = 10  # own: as many as the source 'tasks' has
    classes_per_task: Positive | Literal["even"] = "even"  # split only
    class_order: Literal["natural", "shuffled", "seeded"] | list[Natural] = "natural"  # seeded: each seed has its own
    samples: Positive | Literal["all"] = "all"  # labelled images a task
    ratio: Share = 1.0  # share of them that is used
    labels: Positive | Literal["all"] = "all"  # images a task that keep their label, equally many of every class
    batch: Positive = 10  # labelled images a step
    epochs: EpochCount = 1  # passes through a task, where the schedule is constant
    blurry: Probability = 0.0  # share of a task's training images that come from its neighbours; split and own alone
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.0  # share of training images that take the test images' place
    first_tasks: TaskCount | Literal["all"] = "all"  # only the first of the tasks are trained, as they are with all
    omitted_defaults: ClassVar[tuple[str, ...]] = ("labels", "blurry", "validation", "first_tasks")
    data_seed: int = 0  # angles, permutations and splits; the same for all seeds

    @model_validator(mode="before")
    @classmethod
    def _own_tasks(cls, raw: Any) -> Any:
        """The source 'tasks' says by itself what its tasks are, and how many."""
        if isinstance(raw, dict) and raw.get("source") == "tasks":
            return {"scenario": "own", "tasks": "own"} | raw
        return raw

    @model_validator(mode="after")
    def _paths_and_classes(self) -> "StreamSpec":
        if (self.source in AT_A_PATH) != bool(self.path):
            if self.path:
                raise ValueError(
                    "stream.path belongs to the sources 'folder', 'npz' and 'tasks'; the others lie in the data folder"
                )
            raise ValueError(f"stream.path is missing: set it to your {self.source}, as in --set stream.path=VALUE")
        if isinstance(self.path, list) and self.source != "tasks":
            raise ValueError(f"stream.path is a list, which the source 'tasks' has; set it to one {self.source}")
        own = self.source == "tasks" or (self.source == "python" and self.scenario == "own")
        if own != (self.scenario == "own"):
            raise ValueError(
                "the source 'tasks' brings its own tasks: leave stream.scenario out, or set it to 'own'"
                if own
                else "stream.scenario = 'own' belongs to the source 'tasks'; set it to rotated, permuted or split"
            )
        if self.tasks == "own" and not own:
            raise ValueError("stream.tasks = 'own' belongs to the source 'tasks'; set it to a number")
        for key in ("classes_per_task", "class_order"):
            if self.scenario != "split" and getattr(self, key) != StreamSpec.model_fields[key].default:
                told = "tasks of your own say it themselves" if own else f"every {self.scenario} task has all classes"
                raise ValueError(f"stream.{key} applies to the scenario 'split'; {told}")
        if self.blurry and (self.scenario not in ("split", "own") or self.class_order == "seeded" or self.tasks == 1):
            raise ValueError(
                "stream.blurry exchanges images of neighbouring tasks, which are the same for all seeds: it applies to "
                "the scenarios 'split' and 'own' with two tasks or more, and not to class_order = 'seeded'"
            )
        return self

    @property
    def all_tasks(self) -> int:
        """The number of tasks, which is known of tasks of one's own once their folder was looked at."""
        if self.tasks == "own":
            raise GradcastError("stream.tasks = 'own' is not counted yet; set it to the number of your tasks")
        return self.tasks

    @property
    def task_count(self) -> int:
        """The number of tasks that are trained."""
        return self.all_tasks if self.first_tasks == "all" else min(self.first_tasks, self.all_tasks)


class EvaluationSpec(Table):
    """How accuracy is counted."""

    drop_last: bool = False  # the published code never looks at a test set's last image and counts it as wrong
    average: Positive = 1  # steps over which weights are averaged for evaluation; 1: as they are
    task: Literal["auto"] | TaskKnowledge = "auto"  # of a test image; auto: both, where tasks have different classes
    omitted_defaults: ClassVar[tuple[str, ...]] = ("average", "task")


# The choices by name, for messages and for rows that change a name.
CHOICES: dict[str, dict[str, type[Table]]] = {
    "model": NETWORKS.tables,
    "learner": LEARNERS.tables,
    "signal": SIGNALS.tables,
    "pool": POOLS,
    "schedule": SCHEDULES,
}
SEVERAL = ("signal", "pool")  # tables of which a row may have several


def _listed(raw: Any) -> Any:
    return raw if isinstance(raw, list) else [raw]


def _alone(tables: list[Table]) -> Any:
    """One table is written as itself, several as a list."""
    dumped = [table.model_dump() for table in tables]
    return dumped[0] if len(dumped) == 1 else dumped


OneOrMore = (BeforeValidator(_listed), PlainSerializer(_alone), Field(min_length=1))


class Setting(Table):
    """Everything that makes one row of results."""

    stream: StreamSpec = StreamSpec()  # labelled tasks in order
    model: ModelSpec = MlpSpec()  # the network
    learner: LearnerSpec = GemSpec()  # the continual learner
    signal: Annotated[list[SignalSpec], *OneOrMore] = [NoSignalSpec()]  # what unlabelled images add, one or several
    policy: Policy = Policy()  # when signals are used
    pool: Annotated[list[PoolSpec], *OneOrMore] = [PatchesSpec()]  # unlabelled images, one pool or several
    evaluation: EvaluationSpec = EvaluationSpec()  # how accuracy is counted
    schedule: ScheduleSpec = ConstantSpec()  # how long a task trains, at which rates
    head_start: HeadStartSpec = HeadStartSpec()  # training on a pool before the first task
    omitted_defaults: ClassVar[tuple[str, ...]] = ("schedule", "head_start")

    @property
    def signals(self) -> list[SignalSpec]:
        """Signals that do something."""
        return [signal for signal in self.signal if not isinstance(signal, NoSignalSpec)]

    @property
    def masked(self) -> bool:
        """Whether every task has columns of its own in the output layer, as far as the specification tells."""
        return self.heads_kind(same_classes=self.stream.scenario not in ("split", "own")) == "masked"

    def heads_kind(self, *, same_classes: bool) -> HeadsKind:
        """Which columns of the output layer a loss is taken over, where all tasks have the same classes or not."""
        choice = self.model.heads
        if choice != "auto":
            return choice
        return "shared" if same_classes and self.stream.scenario != "split" else "masked"

    @property
    def one_task(self) -> StepsSpec | None:
        """The course of semi-supervised learning in the usual sense, which is measured by its error."""
        return self.schedule if isinstance(self.schedule, StepsSpec) and self.stream.tasks == 1 else None

    @property
    def plateau(self) -> PlateauSpec | None:
        """The schedule, where validation decides how long a task trains."""
        return self.schedule if isinstance(self.schedule, PlateauSpec) else None

    def pool_of(self, name: str) -> int:
        """The number of the row's pool of this name; empty: the first."""
        names: list[str] = [pool.name for pool in self.pool]
        return names.index(name) if name else 0

    @property
    def uses_signals(self) -> bool:
        """Whether unlabelled images pass during the stream."""
        return bool(self.signals) and self.policy.p > 0


def describe(setting: Setting) -> str:
    """A label for a setting: learner, signals, and what is evaluated where that is not the weights themselves."""
    averaged = "averaged weights" if setting.evaluation.average > 1 else ""
    signals = [SIGNALS[signal.name].describe(signal) for signal in setting.signals]
    spec = setting.head_start
    pool = spec.pool or setting.pool[0].name
    ahead = ("head start" if pool == "unlabelled" else f"head start on {pool}") if spec.steps else ""
    learner = LEARNERS[setting.learner.name].describe(setting.learner)
    learner += {"seen": ", loss over classes seen", "all": ", loss over all classes"}.get(setting.model.heads, "")
    return " + ".join(filter(None, (learner, *signals, averaged, ahead)))


def _names(raw: Any) -> Any:
    return [raw] if isinstance(raw, str) else raw


# A row is a control of the rows named, of those that differ by signal or pool alone (true), of none (false); by nature.
Control = bool | list[str] | None
ControlKey = Annotated[Control, BeforeValidator(_names)]


class Row(Table):
    """A labelled setting; the first row of a run is the base the others are compared with."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=LONGEST_NAME)]
    label: Words  # what tables call the row
    setting: Setting  # the tables of the specification, and what this row changes
    control: ControlKey = None  # rows of which it is a control; true: those that differ by signal or pool alone
    omitted_defaults: ClassVar[tuple[str, ...]] = ("control",)


class Spec(Table):
    """A run: rows that share seeds."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]*[a-z0-9_-])?$", max_length=LONGEST_NAME)]
    title: Words = ""  # a line about the run
    seeds: Annotated[list[Natural], Field(min_length=1)] = [0, 1, 2, 3, 4]  # trained for every row
    dtype: Arithmetic = "float32"  # arithmetic of training
    rows: Annotated[list[Row], Field(min_length=1)]  # the first is the base

    @model_validator(mode="after")
    def _names_and_seeds_are_distinct(self) -> "Spec":
        for what, values in (("seed", map(str, self.seeds)), ("row", (row.name for row in self.rows))):
            most, times = Counter(values).most_common(1)[0]
            if times > 1:
                raise ValueError(f"{what} {most!r} appears {times} times; each may appear once")
        for row in self.rows:
            for name in row.control if isinstance(row.control, list) else ():
                others = [other.name for other in self.rows if other is not row]
                if name not in others:
                    raise ValueError(f"row {row.name!r}: control = {name!r} is no other row{nearest(name, others)}")
        if len({row.setting.one_task is None for row in self.rows}) > 1:
            raise ValueError(
                "some rows learn one task by schedule.name = 'steps' and others do not: their measures differ; "
                "run them apart"
            )
        return self
