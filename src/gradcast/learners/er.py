"""Experience replay: every labelled batch is joined by random images from a reservoir of earlier ones."""

from dataclasses import dataclass, field
from typing import ClassVar

from gradcast.core import Batch, Learner, Replay
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.replicas import Replicas


@dataclass
class Er(Learner):
    """The loss is the mean over the batch and ``count`` replayed images; nothing is done to the gradient."""

    checkpointed: ClassVar[tuple[str, ...]] = ("memory",)
    memory: Reservoir
    count: int = 10
    drawn: Replay | None = field(default=None, init=False)

    def prepare(self, model: Replicas, batch: Batch) -> None:
        """Draw from the past, then let the batch become part of it."""
        self.drawn = self.memory.draw(self.count)
        if (fresh := batch.fresh) is not None:
            self.memory.write(fresh)

    def replay(self) -> Replay | None:
        """What was drawn."""
        return self.drawn
