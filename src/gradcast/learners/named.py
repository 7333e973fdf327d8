"""Learners by name: what a specification says of each, and how it is made."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from gradcast.class_memory import ClassMemory
from gradcast.core import Learner
from gradcast.learners.agem import Agem
from gradcast.learners.dcl import dcl
from gradcast.learners.er import Er
from gradcast.learners.finetune import Finetune
from gradcast.learners.gem import Gem
from gradcast.memory import TaskMemory
from gradcast.replicas import Statistics
from gradcast.reservoir import Reservoir
from gradcast.tables import Natural, Positive, Rate, Table, Weight


class FinetuneSpec(Table):
    """Plain SGD."""

    name: Literal["finetune"]
    lr: Rate = 0.1


class GemSpec(Table):
    """Gradient episodic memory."""

    name: Literal["gem"] = "gem"
    lr: Rate = 0.1
    memory: Positive = 256  # samples kept a task
    margin: Weight = 0.5
    qp_eps: Weight = 0.0
    batchnorm: Statistics = "update"  # what the memories' passes do to BatchNorm statistics


class DclSpec(Table):
    """GEM with a reference direction."""

    name: Literal["dcl"]
    lr: Rate = 0.1
    memory: Positive = 256
    margin: Weight = 0.5
    qp_eps: Weight = 0.0
    interval: Natural = 10
    sign: Literal[1, -1] = 1
    batchnorm: Statistics = "update"


class AgemSpec(Table):
    """Averaged gradient episodic memory."""

    name: Literal["a-gem"]
    lr: Rate = 0.03
    memory: Positive = 65  # samples kept a task, equally many of each class
    reference: Positive = 256  # samples of all earlier tasks that make a step's constraint
    batchnorm: Statistics = "update"


class ErSpec(Table):
    """Experience replay with a reservoir."""

    name: Literal["er"]
    lr: Rate = 0.1
    memory: Positive = 256  # samples kept a task, on average: the reservoir holds this times the number of tasks
    replay: Positive = 10  # samples replayed a step


LearnerSpec = Annotated[FinetuneSpec | GemSpec | DclSpec | AgemSpec | ErSpec, Field(discriminator="name")]
LEARNERS: dict[str, type[Table]] = {
    "finetune": FinetuneSpec,
    "gem": GemSpec,
    "dcl": DclSpec,
    "a-gem": AgemSpec,
    "er": ErSpec,
}
WORDS = {"finetune": "finetune", "gem": "GEM", "dcl": "DCL", "a-gem": "A-GEM", "er": "ER"}


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
