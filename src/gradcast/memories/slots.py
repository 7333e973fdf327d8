"""Numbered slots for images with their labels, tasks and further fields, of which some are drawn in every step."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from gradcast.core import Batch, Replay
from gradcast.devices import to_device

OWN = ("x", "y", "tasks")  # fields that every memory has


class Slots:
    """``size`` slots a replica, and one more where images go that are not kept.

    What else is stored of each image (logits, counters) has a name; all images have the same fields.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.kept: dict[str, Tensor] = {}  # made when the first batch shows shape and device
        self.drawn: dict[int, dict[str, Tensor]] = {}  # by turn; keep their place while as many images are drawn

    def put(self, batch: Batch, places: Int[Tensor, "r b"], fields: Mapping[str, Tensor] | None = None) -> None:
        """Write the images of a batch into these slots; no slot but the one more may come twice."""
        values = {"x": batch.x, "y": batch.y, "tasks": batch.each_task, **(fields or {})}
        if not self.kept:
            self.kept = {name: self._room(value) for name, value in values.items()}
        self.update(places, values)

    def update(self, places: Int[Tensor, "r b"], fields: Mapping[str, Tensor]) -> None:
        """Write these fields of images into their slots."""
        rows = torch.arange(len(places), device=places.device).unsqueeze(1)
        for name, value in fields.items():
            self.kept[name][rows, places] = value.to(self.kept[name].dtype)

    def take(self, places: Sequence[Int[np.ndarray, " m"]], turn: int = 0) -> Replay:
        """What lies in these slots, equally many a replica; what one turn of a step took, another leaves alone."""
        index = to_device(np.stack(places), self.kept["x"].device)
        rows = torch.arange(len(index), device=index.device).unsqueeze(1)
        taken: dict[str, Tensor] = {name: value[rows, index] for name, value in self.kept.items()}
        if turn not in self.drawn or self.drawn[turn]["y"].shape != taken["y"].shape:
            self.drawn[turn] = taken
        drawn = self.drawn[turn]
        for name, place in drawn.items():
            place.copy_(taken[name])
        further = {name: value for name, value in drawn.items() if name not in OWN}
        return Replay(drawn["x"], drawn["y"], drawn["tasks"], further)

    def first(self, count: int) -> dict[str, Tensor]:
        """All fields of the first slots."""
        return {name: value[:, :count] for name, value in self.kept.items()}

    def fill(self, known: Mapping[str, Tensor]) -> None:
        """Set the first slots to these values; all others become empty."""
        self.kept, self.drawn = {name: self._room(value) for name, value in known.items()}, {}
        for name, value in known.items():
            self.kept[name][:, : value.shape[1]] = value

    def _room(self, batch: Shaped[Tensor, "r b *shape"]) -> Shaped[Tensor, "r m *shape"]:
        """For values like these."""
        return batch.new_zeros(len(batch), self.size + 1, *batch.shape[2:])
