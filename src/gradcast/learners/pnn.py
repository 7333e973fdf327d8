"""Progressive networks: a new column for every task, and nothing else learns."""

from gradcast.core import Batch, Learner
from gradcast.networks.pnn_network import PnnNetwork
from gradcast.replicas.replicas import Replicas


class Pnn(Learner):
    """Only tells the network which column is the newest; gradients reach no other."""

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """The column of the batch's task."""
        assert isinstance(model.module, PnnNetwork)
        model.module.grow(batch.task)
