"""A memory of fixed size for a stream without end: every image seen so far is in it with equal probability."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Int
from torch import Tensor

from gradcast.core import Batch, Replay
from gradcast.devices import to_device
from gradcast.memories.slots import Slots
from gradcast.randomness import numpy_generator


class Reservoir:
    """One memory a replica, each with random numbers of its own."""

    checkpointed: ClassVar[tuple[str, ...]] = ("seen", "slots", "draws", "filled")

    def __init__(self, size: int, seeds: Sequence[int]) -> None:
        self.size, self.seen = size, np.zeros(len(seeds), dtype=np.int64)  # images offered to each replica
        self.slots = [numpy_generator(seed, "reservoir") for seed in seeds]
        self.draws = [numpy_generator(seed, "replay") for seed in seeds]
        self.places = Slots(size)

    def write(self, batch: Batch, fields: Mapping[str, Tensor] | None = None) -> Int[Tensor, "r b"]:
        """The n-th image seen goes to a random slot among n, if the memory has that slot.

        ``fields`` are further values of each image, such as logits; they come back with the replay. Says
        which slots the images went to. Replicas that do not train any more keep what they have.
        """
        count = batch.x.shape[1]
        going = np.ones(len(self.seen), dtype=bool) if batch.going is None else batch.going.numpy()
        chosen = np.stack([self._places(*own, count) for own in zip(self.slots, self.seen.tolist(), strict=True)])
        slots = to_device(np.where(going[:, None], chosen, self.size), batch.x.device)
        self.places.put(batch, slots, fields)
        self.seen = self.seen + count * going
        return slots

    def update(self, slots: Int[Tensor, "r b"], fields: Mapping[str, Tensor]) -> None:
        """Overwrite fields in these slots."""
        self.places.update(slots, fields)

    @property
    def filled(self) -> dict[str, Tensor]:
        """The content of all slots in use."""
        return self.places.first(int(self.held.max()))

    @filled.setter
    def filled(self, known: dict[str, Tensor]) -> None:
        self.places.fill(known)

    @property
    def held(self) -> Int[np.ndarray, " r"]:
        """How many images each replica has."""
        return np.minimum(self.seen, self.size)

    def _places(self, generator: np.random.Generator, seen: int, count: int) -> Int[np.ndarray, " b"]:
        """While there is room every image gets its own; of several for one place the last stays."""
        order = np.arange(seen, seen + count)
        places = np.where(order < self.size, order, generator.integers(0, order + 1))
        places = np.minimum(places, self.size)
        _, last = np.unique(places[::-1], return_index=True)
        winners = np.zeros(count, dtype=bool)
        winners[count - 1 - last] = True
        return np.where(winners, places, self.size)

    def draw(self, count: int, turn: int = 0) -> Replay | None:
        """Random images, different ones where there are enough; None while there are none.

        A step that draws several times numbers its turns: what one turn drew, the next leaves alone.
        """
        if not self.seen.any():
            return None
        pairs = zip(self.draws, self.held.tolist(), strict=True)
        return self.places.take([draw.choice(held, count, replace=held < count) for draw, held in pairs], turn)
