"""Progressive networks: a new column for every task; earlier columns are frozen."""

from typing import Literal

from gradcast.core import Batch, Learner
from gradcast.data.images import ImageShape
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import LearnerTable
from gradcast.networks.pnn_network import PnnNetwork, pnn_network
from gradcast.networks.registry import AlexNetSpec, ModelTable
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import Rate


class PnnSpec(LearnerTable):
    """Progressive networks; all columns together have about the room of ``model``."""

    name: Literal["pnn"]
    lr: Rate = 0.05


class Pnn(Learner):
    """Only tells the network which column is the newest; gradients reach no other."""

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """The column of the batch's task."""
        assert isinstance(model.module, PnnNetwork)
        model.module.grow(batch.task)


def _build(table: PnnSpec, context: Context) -> Pnn:
    return Pnn()


def _network(table: PnnSpec, model: ModelTable, shape: ImageShape, width: int, tasks: int) -> PnnNetwork:
    assert isinstance(model, AlexNetSpec)  # compatibility sees to that
    return pnn_network(shape, tasks, width, channels=model.channels, widths=[*model.widths, model.latent])


def _heads(table: PnnSpec, model: ModelTable, width: int, tasks: int) -> Heads:
    return Heads.even(width, tasks, masked=True)


ENTRY = learner_entry(
    PnnSpec,
    _build,
    "PNN",
    "nothing beyond a plain step; a column a task",
    "own-network",
    network=_network,
    heads=_heads,
    models=("alexnet-like",),
)
