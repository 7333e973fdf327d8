"""Plain SGD on one task after another: the lower bound."""

from dataclasses import dataclass
from typing import Literal

from gradcast.core import Learner
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import DescentTable
from gradcast.specs.context import Context
from gradcast.specs.table import Rate


class FinetuneSpec(DescentTable):
    """Plain SGD on the labelled images, without anything against forgetting."""

    name: Literal["finetune"]
    lr: Rate = 0.1


@dataclass
class Finetune(Learner):
    """Remembers nothing, changes nothing."""


def _build(table: FinetuneSpec, context: Context) -> Finetune:
    return Finetune()


ENTRY = learner_entry(FinetuneSpec, _build, "finetune", "nothing beyond a plain step")
