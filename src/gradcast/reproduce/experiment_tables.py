"""What the TOML file of an experiment may hold beside settings."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gradcast.specs.spec import ControlKey
from gradcast.specs.table import Positive, Share, Table

Kind = Literal["table", "sweeps", "curves", "courses", "scatter", "matrices"]  # what is drawn beside the table
Measure = Literal["acc", "bwt", "fwt", "gain"]  # gain: in ACC, over the row it is compared with
Figures = dict[str, float]  # measure -> published value; ACC in per cent


class RowTable(Table):
    """What a row of an experiment has beside its settings."""

    name: str
    label: str
    like: str = ""  # ID/row of another experiment: its setting in place of the common tables
    against: str = ""  # the row it is compared with
    control: ControlKey = None  # as in any specification
    not_reproduced: str = ""  # why it cannot be run
    published: Figures = {}
    pretrained: bool = False  # published figures are of a network that starts from weights: model.weights


class SweepTable(Table):
    """One row for each value of one key, or of a whole table."""

    name: str
    label: str
    of: str = ""  # the row that is varied: of this experiment, or ID/row of another; default: the common tables
    key: str  # TABLE.KEY, or TABLE where values are tables
    values: Annotated[list[Any], Field(min_length=1)]
    called: list[Any] = []  # what they are called, one for each value; default: the values themselves
    against: str = ""  # a row, or another sweep: its row of the same value
    nothing: Any = None  # the value that adds nothing: there the row it is compared with stands itself
    control: ControlKey = None  # of every row of it
    published: list[Figures] = []  # one for each value, or none
    plot: str = ""  # sweeps of the same plot share it; default: its own
    curve: str = ""  # what it is called in a plot that it shares
    logarithmic: bool = False  # its values stand on a logarithmic axis; default: at equal distances

    @model_validator(mode="after")
    def _every_value_has_a_name(self) -> "SweepTable":
        if self.called and len(self.called) != len(self.values):
            raise ValueError(f"called has {len(self.called)} names for {len(self.values)} values")
        return self


class Header(Table):
    """What an experiment says of itself."""

    id: str
    title: str
    about: str
    kind: Kind = "table"
    like: str = ""  # ID/row of another experiment: its setting is the common one
    seeds: Positive = 5
    quick: list[str] = []  # settings of a look in minutes
    quick_steps: Share = 1.0  # share of the steps of each head start in such a look
    measures: Annotated[list[Measure], Field(min_length=1)] = ["acc", "bwt", "fwt"]  # of sweeps
    task: Literal["known", "both"] = "known"  # both: the table shows accuracies without the task too
    h_parameters: int = 0  # of the gradient learner, as published; 0: not said
    alone: bool = False  # cost is measured: one seed at a time, trained for this alone
