"""Unlabelled images as they are stored, often mapped from the cache: only those that are drawn are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float32, Int, UInt8

from gradcast.data.images import Inputs, Pixels, Shape, fingerprint_of_parts

RESIDENT = 2**30  # bytes of images, as they are drawn, that may lie in memory or on a GPU; more are taken one by one
PART = 2**26  # bytes that are made at once where all images are gone through


@dataclass(frozen=True)
class StoredImages:
    """Images that are ``enlarge``d to ``shape`` when they are drawn, where they are stored smaller.

    Of these only ``rows`` may be drawn, where that is given. ``known`` is the digest of all, where the cache has it.
    """

    x: Inputs
    shape: Shape
    enlarge: Callable[[Pixels], Pixels] | None = None
    rows: Int[np.ndarray, " n"] | None = None
    known: str | None = None

    @classmethod
    def of(cls, x: Inputs) -> "StoredImages":
        """Images in the shape they are wanted in, or feature vectors."""
        return cls(x, x.shape[1:])

    def __len__(self) -> int:
        return len(self.x) if self.rows is None else len(self.rows)

    @property
    def size(self) -> int:
        """Bytes of all images as they are drawn."""
        return len(self) * int(np.prod(self.shape)) * self.x.itemsize

    def take(self, index: Int[np.ndarray, "*k"]) -> UInt8[np.ndarray, "*k c h w"] | Float32[np.ndarray, "*k d"]:
        """The images of these numbers."""
        flat = index.reshape(-1)
        found: np.ndarray = self.x[flat if self.rows is None else self.rows[flat]]
        if self.enlarge is not None:
            found = self.enlarge(found)
        return found.reshape(*index.shape, *self.shape)

    def only(self, rows: Int[np.ndarray, " m"]) -> "StoredImages":
        """Some of them, in this order."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows], known=None)

    @cached_property
    def content(self) -> str:
        """A digest of the images as they are drawn."""
        return self.known or fingerprint_of_parts((len(self), *self.shape), self.parts(), self.x.dtype.type)

    def parts(self) -> Iterator[Inputs]:
        """All images in turn, some at a time."""
        for start in range(0, len(self), self._step):
            yield self.take(np.arange(start, min(start + self._step, len(self))))

    @property
    def part_count(self) -> int:
        """How many parts that are."""
        return -(-len(self) // self._step)

    @property
    def _step(self) -> int:
        return max(PART // int(np.prod(self.shape)), 1)
