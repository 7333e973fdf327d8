"""Experience replay: every labelled batch is joined by random images from a reservoir of earlier ones."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradcast.core import Batch, Learner, Replay
from gradcast.learners.learner_entry import learner_entry
from gradcast.learners.learner_table import ReservoirTable
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.replicas import Replicas
from gradcast.specs.context import Context
from gradcast.specs.table import Positive, Rate
from gradcast.streams.reaugment import Reaugment


class ErSpec(ReservoirTable):
    """Experience replay with a reservoir."""

    name: Literal["er"]
    lr: Rate = 0.1
    repeats: Positive = 1  # updates a batch, each with other replayed samples: repeated rehearsal
    omitted_defaults: ClassVar[tuple[str, ...]] = ("repeats", "capacity")


@dataclass
class Er(Learner):
    """The loss is the mean over the batch and ``count`` replayed images; nothing is done to the gradient.

    ER-ACE (``asymmetric``) takes the loss of the batch over the classes that it shows.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("memory",)
    memory: Reservoir
    count: int = 10
    asymmetric: bool = False
    augment: Reaugment | None = None
    every: bool = False  # whether every epoch offers its images to the memory, or the first alone
    drawn: Replay | None = field(default=None, init=False)

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw from the reservoir, then write the batch into it."""
        self.drawn = self.memory.draw(self.count)
        if (new := batch.to_store(every=self.every)) is not None:
            self.memory.write(new)

    def replay(self) -> Replay | None:
        """The images drawn from memory for this step."""
        return self.drawn

    def shown(self, model: Replicas, x: Float[Tensor, "r n *shape"]) -> Float[Tensor, "r n *shape"]:
        """Augmented anew in every update; the memory has the images as they came."""
        return x if self.augment is None else self.augment(x, model.chance.labelled)

    def competing(self, model: Replicas, batch: Batch) -> Bool[Tensor, "r c"] | None:
        """The classes of the batch, in ER-ACE."""
        if not self.asymmetric:
            return None
        none = torch.zeros(model.count, model.heads.width, dtype=torch.bool, device=batch.y.device)
        return none.scatter(1, batch.y, True)


def _build(table: ErSpec, context: Context) -> Er:
    memory = Reservoir(table.places(context.tasks), context.seeds)
    return Er(memory, table.replay, augment=table.reaugment(context.scale), every=table.store == "every")


ENTRY = learner_entry(
    ErSpec,
    _build,
    lambda table: ("ER" if table.repeats == 1 else f"ER, {table.repeats} updates a batch") + table.manner,
    "replayed images join the labelled pass; memory images a task",
    recalled=lambda table, past, batch: (table.replay, 0),
)
