"""Multimodal: every task has an input layer of its own, and all layers after it are shared."""

import math
from dataclasses import dataclass
from typing import Literal

from gradcast.core import Learner
from gradcast.data.images import ImageShape
from gradcast.errors import GradcastError
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import LearnerTable
from gradcast.networks.entrance_network import EntranceNetwork
from gradcast.networks.registry import MlpSpec, ModelTable
from gradcast.replicas.heads import Heads
from gradcast.specs.context import Context
from gradcast.specs.table import Rate
from gradcast.training.task_modules import TaskModules


class MultimodalSpec(LearnerTable):
    """An input layer for every task; the layers after it are trained on, one task after another."""

    name: Literal["multimodal"]
    lr: Rate = 0.1


@dataclass
class Multimodal(Learner):
    """Plain steps; a task is evaluated with its own input layer and the shared layers of now."""

    modules: TaskModules

    def task_modules(self) -> TaskModules:
        """Modules of each task's own: the input layers."""
        return self.modules


def _build(table: MultimodalSpec, context: Context) -> Multimodal:
    return Multimodal(context.modules(shared="shared", purpose="multimodal"))


def _network(table: MultimodalSpec, model: ModelTable, shape: ImageShape, width: int, tasks: int) -> EntranceNetwork:
    assert isinstance(model, MlpSpec)  # compatibility sees to that
    if model.norm != "none" or not model.hidden:
        raise GradcastError(
            "the learner 'multimodal' has an input layer before hidden layers without BatchNorm: leave model.norm out, "
            "and set model.hidden"
        )
    return EntranceNetwork([math.prod(shape), *model.hidden, width])


def _heads(table: MultimodalSpec, model: ModelTable, width: int, tasks: int) -> Heads:
    return Heads.even(width, tasks)


ENTRY = learner_entry(
    MultimodalSpec,
    _build,
    "multimodal",
    "nothing beyond a plain step; an input layer a task",
    "own-network",
    "task-modules",
    "one-head",
    "same-classes",
    network=_network,
    heads=_heads,
    models=("mlp",),
)
