"""How long a learner stays with a task: the table ``schedule`` of a specification."""

from typing import Annotated

from pydantic import Field

from gradcast.epochs.core import Reset
from gradcast.epochs.plateau import Plateau
from gradcast.specs.table import Positive, Rate, Table, Weight


class Schedule(Table):
    """Many epochs a task; the defaults are published for CIFAR-100, miniImageNet has others where it says so.

    Batch size and learning rate are ``stream.batch`` and ``learner.lr``.
    """

    epochs: Positive = 200  # at most
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.15  # share of the images set aside; miniImageNet 0.02
    validation_batch: Positive = 9  # miniImageNet 1
    factor: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 3.0  # by which the learning rate is divided
    smallest: Rate = 1e-6  # learning rate below which a replica stops
    patience: Positive = 5  # epochs without a better validation loss
    reset: Reset = "fixed"
    above_chance: Weight = 0.02  # what a replica must have reached on its training images in the fifth epoch

    def plateau(self, count: int, lr: float) -> Plateau:
        """What lowers this learning rate of so many replicas."""
        return Plateau(count, lr, factor=self.factor, smallest=self.smallest, patience=self.patience)
