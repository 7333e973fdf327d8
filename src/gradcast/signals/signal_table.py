"""What the tables of signals have in common."""

from typing import ClassVar

from pydantic import model_validator

from gradcast.gradients.length import Length
from gradcast.specs.table import Table, Weight


class SignalTable(Table):
    """Which of the row's pools a signal takes, where there are several."""

    omitted_defaults: ClassVar[tuple[str, ...]] = ("pool",)
    name: str
    pool: str = ""  # name of a pool; empty: the first


class LabelsTable(SignalTable):
    """What gradients of labels have, whoever gives the labels."""

    weight: Weight = 1.0  # of the cross entropy
    scaled: bool = False  # rows of the logit gradient have length alpha * tau, whatever the weight
    alpha: Weight = 0.001  # length of a row where ``scaled``, as a share of tau

    @model_validator(mode="after")
    def _one_length(self) -> "LabelsTable":
        if self.scaled and self.weight != 1:
            raise ValueError("signal.weight does nothing where signal.scaled is true; set signal.alpha instead")
        return self

    @property
    def length(self) -> Length | None:
        """Of the rows, where they have one."""
        return Length(self.alpha) if self.scaled else None
