"""Numbered places for images with their labels and tasks, of which some are drawn in every step."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from gradcast.core import Batch, Replay
from gradcast.devices import to_device


class Slots:
    """``size`` places a replica, and one more where images go that are not kept."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.kept: Replay | None = None  # made when the first batch shows shape and device
        self.drawn: Replay | None = None  # keeps its place in memory while as many images are drawn

    def put(self, batch: Batch, places: Int[Tensor, "r b"]) -> None:
        """Write the images of a batch into these places; no place but the one more may come twice."""
        if self.kept is None:
            self.kept = Replay(self._room(batch.x), self._room(batch.y), self._room(batch.y))
        rows = torch.arange(len(places), device=places.device).unsqueeze(1)
        self.kept.x[rows, places] = batch.x
        self.kept.y[rows, places] = batch.y
        self.kept.tasks[rows, places] = batch.task

    def take(self, places: Sequence[Int[np.ndarray, " m"]]) -> Replay:
        """What lies in these places, equally many a replica."""
        assert self.kept is not None
        index = to_device(np.stack(places), self.kept.x.device)
        rows = torch.arange(len(index), device=index.device).unsqueeze(1)
        taken: list[Tensor] = [each[rows, index] for each in (self.kept.x, self.kept.y, self.kept.tasks)]
        if self.drawn is None or self.drawn.y.shape != taken[1].shape:
            self.drawn = Replay(*taken)
        for place, new in zip((self.drawn.x, self.drawn.y, self.drawn.tasks), taken, strict=True):
            place.copy_(new)
        return self.drawn

    def first(self, count: int) -> tuple[Tensor, ...] | None:
        """Images, labels and tasks of the first places."""
        if self.kept is None:
            return None
        return tuple(each[:, :count] for each in (self.kept.x, self.kept.y, self.kept.tasks))

    def fill(self, known: tuple[Tensor, ...] | None) -> None:
        """Begin with these in the first places and nothing elsewhere."""
        self.kept = None if known is None else Replay(*(self._room(each) for each in known))
        if self.kept is not None and known is not None:
            for place, each in zip((self.kept.x, self.kept.y, self.kept.tasks), known, strict=True):
                place[:, : each.shape[1]] = each

    def _room(self, batch: Shaped[Tensor, "r b *shape"]) -> Shaped[Tensor, "r m *shape"]:
        """For images or labels like these."""
        return batch.new_zeros(len(batch), self.size + 1, *batch.shape[2:])
