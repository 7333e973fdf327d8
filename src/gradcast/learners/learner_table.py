"""What the tables of all learners have in common."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from gradcast.specs.table import Momentum, Natural, Positive, Rate, Table, Weight
from gradcast.streams.named_augmentations import AnyAugmentation, named
from gradcast.streams.reaugment import Reaugment
from gradcast.streams.scale import Scale


class LearnerTable(Table):
    """What every learner has."""

    name: str
    lr: Rate = 0.1  # learning rate

    @property
    def descent(self) -> tuple[float, float]:
        """Momentum and weight decay of SGD."""
        return 0.0, 0.0

    @property
    def updates_a_batch(self) -> int:
        """How often a step is made on each batch."""
        return int(getattr(self, "repeats", 1))


class DescentTable(LearnerTable):
    """Plain SGD, or with momentum and weight decay; each task begins with a new optimizer."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("momentum", "decay")
    momentum: Momentum = 0.0  # of SGD
    decay: Weight = 0.0  # weight decay of SGD

    @property
    def descent(self) -> tuple[float, float]:
        """Momentum and weight decay of SGD."""
        return self.momentum, self.decay


class ReplayTable(DescentTable):
    """Learners that replay images out of one memory for all tasks."""

    memory: Positive = 256  # samples kept a task, on average: the memory holds this times the number of tasks
    replay: Positive = 10  # samples replayed a step
    capacity: Natural = 0  # samples kept in all; 0: as ``memory`` says
    augment: list[AnyAugmentation] = Field(default=[])  # of batch and replay, new in every update; stored without
    omitted_defaults: ClassVar[tuple[str, ...]] = ("augment",)

    @model_validator(mode="after")
    def _one_size(self) -> "ReplayTable":
        if self.capacity and self.memory != ReplayTable.model_fields["memory"].default:
            raise ValueError(
                "learner.memory is samples a task and learner.capacity samples in all: set one of them, and leave the "
                "other out"
            )
        return self

    def reaugment(self, scale: Scale) -> Reaugment | None:
        """What happens to images before each update, if anything."""
        return Reaugment(named(self.augment), scale) if self.augment else None

    @property
    def manner(self) -> str:
        """What to add to the name of a row."""
        return ", augmented" if self.augment else ""

    def places(self, tasks: int) -> int:
        """Samples that the memory holds in a stream of so many tasks."""
        return self.capacity or tasks * self.memory


class ReservoirTable(ReplayTable):
    """Learners whose memory is a reservoir, which takes images as they come."""

    store: Literal["first", "every"] = "first"  # which epochs offer images to the reservoir: the first, or every one
    omitted_defaults: ClassVar[tuple[str, ...]] = ("store",)


class TaskMemoryTable(DescentTable):
    """Learners that replay images out of a memory of every earlier task, shared equally by its classes."""

    memory: Positive = 256  # samples kept a task
    replay: Positive = 10  # samples of earlier tasks replayed a step

    @model_validator(mode="after")
    def _enough(self) -> "TaskMemoryTable":
        if self.memory < self.replay:
            raise ValueError(
                f"learner.memory = {self.memory} holds fewer samples after the first task than learner.replay = "
                f"{self.replay} asks for; set learner.memory to {self.replay} or more, or a smaller learner.replay"
            )
        return self
