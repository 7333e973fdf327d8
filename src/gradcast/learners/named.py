"""Learners by name: what a specification says of each, and how it is made."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gradcast.acl.settings import AclSettings
from gradcast.class_memory import ClassMemory
from gradcast.core import Learner
from gradcast.learners.agem import Agem
from gradcast.learners.dcl import dcl
from gradcast.learners.er import Er
from gradcast.learners.finetune import Finetune
from gradcast.learners.gem import Gem
from gradcast.memory import TaskMemory
from gradcast.networks.hat import FACTOR as SPARSITY
from gradcast.networks.hat import STEEPEST
from gradcast.replicas import Statistics
from gradcast.reservoir import Reservoir
from gradcast.tables import Momentum, Natural, Positive, Rate, Table, Weight


class DescentTable(Table):
    """SGD of learners that train many epochs a task; in a single pass steps are plain."""

    unsaid: ClassVar[tuple[str, ...]] = ("momentum", "decay")
    momentum: Momentum = 0.0
    decay: Weight = 0.0


class FinetuneSpec(DescentTable):
    """Plain SGD."""

    name: Literal["finetune"]
    lr: Rate = 0.1


class GemSpec(DescentTable):
    """Gradient episodic memory."""

    name: Literal["gem"] = "gem"
    lr: Rate = 0.1
    memory: Positive = 256  # samples kept a task
    margin: Weight = 0.5
    qp_eps: Weight = 0.0
    batchnorm: Statistics = "update"  # what the memories' passes do to BatchNorm statistics


class DclSpec(DescentTable):
    """GEM with a reference direction."""

    name: Literal["dcl"]
    lr: Rate = 0.1
    memory: Positive = 256
    margin: Weight = 0.5
    qp_eps: Weight = 0.0
    interval: Natural = 10
    sign: Literal[1, -1] = 1
    batchnorm: Statistics = "update"


class AgemSpec(DescentTable):
    """Averaged gradient episodic memory."""

    name: Literal["a-gem"]
    lr: Rate = 0.03
    memory: Positive = 65  # samples kept a task, equally many of each class
    reference: Positive = 256  # samples of all earlier tasks that make a step's constraint
    batchnorm: Statistics = "update"


class ErSpec(DescentTable):
    """Experience replay with a reservoir."""

    name: Literal["er"]
    lr: Rate = 0.1
    memory: Positive = 256  # samples kept a task, on average: the reservoir holds this times the number of tasks
    replay: Positive = 10  # samples replayed a step


class JointSpec(DescentTable):
    """All tasks so far together, an upper bound: a step of task t sees a batch of each of the tasks 0 to t."""

    name: Literal["joint"]
    lr: Rate = 0.01


class AclSpec(AclSettings):
    """Adversarial continual learning; ``model`` is its shared module."""

    name: Literal["acl"]
    lr: Rate = 0.01  # miniImageNet 0.003
    private_width: Positive = 32  # channels of the private modules; miniImageNet 16
    head_units: Positive = 32  # miniImageNet 128
    memory: Natural = 0  # samples kept a task, equally many of each class; 0: none, as published
    unsaid: ClassVar[tuple[str, ...]] = ("memory", "difference")


class MgSpec(DescentTable):
    """Meta-gradient on few labels, with the published constants."""

    unsaid: ClassVar[tuple[str, ...]] = ()
    name: Literal["mg"]
    lr: Rate = 0.1
    momentum: Momentum = 0.9
    decay: Weight = 1e-4  # SVHN 5e-5
    mix_up: Weight = 1.0  # parameter of the Beta distribution, SVHN 0.1; 0: images are not mixed


class MeanTeacherSpec(DescentTable):
    """A moving average as teacher on few labels."""

    unsaid: ClassVar[tuple[str, ...]] = ()
    name: Literal["mean-teacher"]
    lr: Rate = 0.1
    momentum: Momentum = 0.9
    decay: Weight = 1e-4
    consistency: Weight = 10.0  # weight of the squared distance from the teacher's probabilities
    average: Momentum = 0.999  # share of the past in the teacher's weights


class PnnSpec(Table):
    """Progressive networks; all columns together have about the room of ``model``."""

    name: Literal["pnn"]
    lr: Rate = 0.05


class HatSpec(Table):
    """Hard attention to the task; gates behind every layer of ``model``."""

    name: Literal["hat"]
    lr: Rate = 0.05
    steepest: Rate = STEEPEST  # slope of the gates at the end of an epoch
    sparsity: Weight = SPARSITY  # weight of the units that a task takes
    clip: Rate = 10_000.0  # longest gradient


LearnerSpec = Annotated[
    FinetuneSpec
    | GemSpec
    | DclSpec
    | AgemSpec
    | ErSpec
    | JointSpec
    | AclSpec
    | PnnSpec
    | HatSpec
    | MgSpec
    | MeanTeacherSpec,
    Field(discriminator="name"),
]
LEARNERS: dict[str, type[Table]] = {
    "finetune": FinetuneSpec,
    "gem": GemSpec,
    "dcl": DclSpec,
    "a-gem": AgemSpec,
    "er": ErSpec,
    "joint": JointSpec,
    "acl": AclSpec,
    "pnn": PnnSpec,
    "hat": HatSpec,
    "mg": MgSpec,
    "mean-teacher": MeanTeacherSpec,
}
FEW_LABELS = ("mg", "mean-teacher")  # learners that are for one task with few labels alone
SCHEDULED = ("joint", "acl", "pnn", "hat")  # learners that are for many epochs a task alone
OWN_NETWORKS = ("acl", "pnn", "hat")  # those with modules of each task
WORDS = {
    "finetune": "finetune", "gem": "GEM", "dcl": "DCL", "a-gem": "A-GEM", "er": "ER",
    "joint": "joint training", "acl": "ACL", "pnn": "PNN", "hat": "HAT",
    "mg": "MG", "mean-teacher": "mean teacher",
}  # fmt: skip


def learner(spec: LearnerSpec, tasks: int, *, classes: int, seeds: Sequence[int]) -> Learner:
    """The continual learner, for so many tasks of so many classes."""
    match spec:
        case FinetuneSpec():
            return Finetune()
        case GemSpec():
            memories = TaskMemory(tasks, spec.memory)
            return Gem(memories, margin=spec.margin, qp_eps=spec.qp_eps, batchnorm=spec.batchnorm)
        case DclSpec():
            return dcl(
                TaskMemory(tasks, spec.memory),
                interval=spec.interval,
                sign=spec.sign,
                margin=spec.margin,
                qp_eps=spec.qp_eps,
                batchnorm=spec.batchnorm,
            )
        case AgemSpec():
            by_class = ClassMemory(tasks, spec.memory, classes=classes, seeds=seeds)
            return Agem(by_class, spec.reference, spec.batchnorm)
        case ErSpec():
            return Er(Reservoir(tasks * spec.memory, seeds), spec.replay)
        case _:
            raise ValueError(f"the learner {spec.name!r} is made with the images of its schedule")
