"""DER++: dark experience replay with the labels of other replayed images beside."""

from typing import Literal

from gradcast.learners.der import DarkTable, Der
from gradcast.learners.learner_entry import learner_entry
from gradcast.memories.reservoir import Reservoir
from gradcast.specs.context import Context
from gradcast.specs.table import Rate, Weight


class DerPlusPlusSpec(DarkTable):
    """DER++: DER, and the cross entropy of a second batch of replayed images."""

    name: Literal["der-plus-plus"]
    alpha: Weight = 0.2  # weight of the distance from stored logits
    beta: Rate = 0.5  # weight of the cross entropy; without it this would be DER


def _build(table: DerPlusPlusSpec, context: Context) -> Der:
    memory = Reservoir(table.places(context.tasks), context.seeds)
    augment, every = table.reaugment(context.scale), table.store == "every"
    return Der(memory, table.replay, table.alpha, table.beta, augment=augment, every=every)


ENTRY = learner_entry(
    DerPlusPlusSpec,
    _build,
    lambda table: "DER++" + table.manner,
    "two passes of replayed images in each step; memory images a task with their logits",
    recalled=lambda table, past, batch: (2 * table.replay, 0),
)
