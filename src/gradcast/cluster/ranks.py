"""Processes that train one model together: which one this is, and what they say to each other.

All ranks run the same command and hold the same weights, memories and random numbers. Only passes are divided among
them, so there are few things to say: sums of gradients and statistics, outputs, and what one rank decides for all.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor

from gradcast.errors import GradcastError, message_of

T = TypeVar("T")
HOST = torch.device("cpu")  # where ranks agree on what the host decides: the GPU's work need not be waited for


class LostRankError(GradcastError):
    """Another rank does not answer any more: it failed, or was killed."""


@dataclass(frozen=True)
class Ranks:
    """This process among all; ``scratch`` is a folder for the files of ranks other than the first."""

    number: int
    size: int
    local: int  # its number on this machine
    scratch: Path

    @property
    def first(self) -> bool:
        """Whether this one writes files and prints."""
        return self.number == 0

    def sizes(self, count: int) -> list[int]:
        """How many of ``count`` things each rank takes: nearly equally many, the first ones more."""
        each, left = divmod(count, self.size)
        return [each + (rank < left) for rank in range(self.size)]

    def share(self, count: int) -> slice:
        """Which of them this rank takes."""
        sizes = self.sizes(count)
        start = sum(sizes[: self.number])
        return slice(start, start + sizes[self.number])

    def summed(self, tensor: Shaped[Tensor, "*any"]) -> Shaped[Tensor, "*any"]:
        """The sum over all ranks, the same bits on each."""
        total = tensor.contiguous().clone()
        with _answering():
            dist.all_reduce(total)
        return total

    def gathered(self, own: Shaped[Tensor, "own *any"], count: int) -> Shaped[Tensor, "count *any"]:
        """The shares of all ranks, one after another."""
        sizes = self.sizes(count)
        sent = own.new_zeros(max(sizes), *own.shape[1:])  # collectives want equally much of everybody
        sent[: len(own)] = own
        found = [torch.empty_like(sent) for _ in sizes]
        with _answering():
            dist.all_gather(found, sent)
        return torch.cat([part[:size] for part, size in zip(found, sizes, strict=True)])

    def largest(self, number: int) -> int:
        """The largest number that a rank says."""
        said = torch.tensor(number, device=HOST)
        with _answering():
            dist.all_reduce(said, dist.ReduceOp.MAX)
        return int(said)

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first rank makes, for all; the others make nothing."""
        said = [make() if self.first else None]
        with _answering():
            dist.broadcast_object_list(said, src=0, device=HOST)
        found: T = said[0]  # type: ignore[assignment]  # the first rank's
        return found

    def own(self, path: Path) -> Path:
        """Where this rank has the files of a place that the first one writes to."""
        return path if self.first else self.scratch / path.name

    @contextmanager
    def one_here_first(self) -> Iterator[None]:
        """The first rank of each machine goes ahead, the others follow: what it puts into a cache is made once."""
        if self.local:
            self.largest(0)
        yield
        if not self.local:
            self.largest(0)


@contextmanager
def _answering() -> Iterator[None]:
    """A collective that fails is a sentence: somebody is gone."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        said = message_of(error).rpartition("] ")[2].partition(". ")[0]  # without where in a library it was said
        raise LostRankError(
            f"a process of this run ended or cannot be reached ({said}); the same command goes on from the newest "
            "checkpoint"
        ) from None
