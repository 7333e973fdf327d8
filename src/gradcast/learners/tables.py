"""What the tables of all learners have in common."""

from typing import ClassVar

from gradcast.specs.table import Momentum, Rate, Table, Weight


class LearnerTable(Table):
    """The optimizer: plain SGD, or with momentum and weight decay; each task begins with a new one."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("momentum", "decay")
    momentum: Momentum = 0.0
    decay: Weight = 0.0
    name: str  # here, as the order of keys is part of a run's name
    lr: Rate = 0.1
