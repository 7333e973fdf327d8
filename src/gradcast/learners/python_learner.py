"""The learner *python*: a class of the user's own, by import path."""

from typing import Literal

from pydantic import ConfigDict

from gradcast.core import Learner
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import DescentTable
from gradcast.specs.context import Context
from gradcast.specs.imported import build_imported


class PythonLearnerSpec(DescentTable):
    """A class of your own that derives from ``gradcast.Learner``; further keys are its keyword arguments."""

    model_config = ConfigDict(extra="allow")
    name: Literal["python"]
    path: str  # "package.module:Class"


def _build(table: PythonLearnerSpec, context: Context) -> Learner:
    return build_imported(table, context, Learner, "learner")  # type: ignore[type-abstract]


def _label(table: PythonLearnerSpec) -> str:
    return table.path.partition(":")[2]


ENTRY = learner_entry(PythonLearnerSpec, _build, _label, "its own")
