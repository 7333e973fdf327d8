"""ER-ACE: experience replay in which a batch of new classes does not push the old ones away."""

from typing import ClassVar, Literal

from gradcast.learners.er import Er
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import ReservoirTable
from gradcast.memories.reservoir import Reservoir
from gradcast.specs.context import Context
from gradcast.specs.table import Rate


class ErAceSpec(ReservoirTable):
    """ER with an asymmetric cross entropy: a batch's loss is over its own classes, that of replay over all."""

    name: Literal["er-ace"]
    lr: Rate = 0.1
    omitted_defaults: ClassVar[tuple[str, ...]] = ("capacity",)


def _build(table: ErAceSpec, context: Context) -> Er:
    memory = Reservoir(table.places(context.tasks), context.seeds)
    augment, every = table.reaugment(context.scale), table.store == "every"
    return Er(memory, table.replay, asymmetric=True, augment=augment, every=every)


ENTRY = learner_entry(
    ErAceSpec,
    _build,
    lambda table: "ER-ACE" + table.manner,
    "replayed images join the labelled pass; memory images a task",
    "unmixed",
    recalled=lambda table, past, batch: (table.replay, 0),
)
