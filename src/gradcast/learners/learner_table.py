"""What the tables of all learners have in common."""

from typing import ClassVar

from gradcast.specs.table import Momentum, Rate, Table, Weight


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
