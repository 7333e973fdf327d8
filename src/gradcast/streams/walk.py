"""An endless walk through a number of things: shuffled without replacement, and again."""

from typing import ClassVar

import numpy as np
from jaxtyping import Int


class Walk:
    """Slots from 0 to ``count`` - 1; what reaches the end of a shuffle goes on with the next: every part is full."""

    checkpointed: ClassVar[tuple[str, ...]] = ("shuffle", "queue")

    def __init__(self, count: int, shuffle: np.random.Generator) -> None:
        self.count, self.shuffle = count, shuffle
        self.queue = np.empty(0, dtype=np.int64)

    def take(self, size: int) -> Int[np.ndarray, " size"]:
        """The next places of the walk; a new permutation follows where one ends."""
        while len(self.queue) < size:
            self.queue = np.concatenate([self.queue, self.shuffle.permutation(self.count)])
        taken, self.queue = np.split(self.queue, [size])
        return taken
