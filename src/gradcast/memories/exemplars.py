"""Exemplars: a few images of every class of every task that is over, with what the network said of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import one_hot
from torch.nn.utils.rnn import pad_sequence

from gradcast.core import Batch, Replay
from gradcast.devices import to_device
from gradcast.memories.slots import Slots
from gradcast.randomness import numpy_generator
from gradcast.replicas.heads import Heads

OUTPUTS = "outputs"  # the field of all columns of the output layer


@dataclass(frozen=True)
class Run:
    """Consecutive tasks with equally many classes, and where the images drawn of them lie."""

    tasks: Int[Tensor, " k"]
    rows: slice
    width: int  # classes of each

    def of(self, drawn: Shaped[Tensor, "r n *any"]) -> Shaped[Tensor, "r k m *any"]:
        """Their part of what was drawn, task by task."""
        found: Tensor = drawn[:, self.rows].unflatten(1, (len(self.tasks), self.width))
        return found


@runtime_checkable
class Draws(Protocol):
    """Where random choices come from: numpy's generator, or a record of it."""

    def integers(self, high: Int[np.ndarray, " n"], /) -> Int[np.ndarray, " n"]:
        """A number below each of these."""
        ...


class Exemplars:
    """A set of images for every class of every task, one memory a replica.

    When a task ends, each of its classes gets ``size`` divided by the number of sets so far. Sets of earlier tasks keep
    what they have. ``latest``: draws go only as far as the newest sets are large.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("done", "counts", "draws", "filled")

    def __init__(self, heads: Heads, size: int, *, seeds: Sequence[int], latest: bool = False) -> None:
        self.heads, self.latest = heads, latest
        self.widths = [len(columns) for columns in heads.task_columns]
        self.ends = list(accumulate(self.widths))  # of every task's sets
        self.shares = [size // sets for sets in self.ends]  # images of each set of a task, at most
        rooms = np.repeat(self.shares, self.widths)
        self.starts = np.cumsum(rooms) - rooms  # the first slot of every set
        self.columns = np.concatenate([np.array(columns) for columns in heads.task_columns])  # of every set
        self.done = 0  # tasks that are over
        self.counts = np.zeros((len(seeds), self.ends[-1]), np.int64)  # images of every set
        self.draws: list[Draws] = [numpy_generator(seed, "exemplars") for seed in seeds]
        self.places = Slots(int(rooms.sum()))

    @property
    def sets(self) -> int:
        """How many sets there are: one for every class of every task that is over."""
        return self.ends[self.done - 1] if self.done else 0

    @property
    def held(self) -> int:
        """How many slots belong to these sets."""
        return self.starts[self.sets].item() if self.sets < len(self.starts) else self.places.size

    def write(self, task: int, chosen: Sequence[Sequence[Tensor]], outputs: int) -> None:
        """A task is over: for every replica, the images of each of its classes, in the order of the task's labels."""
        own = range(self.sets, self.sets + self.widths[task])
        images, labels, slots = [], [], []
        for replica, classes in enumerate(chosen):
            self.counts[replica, own] = [len(x) for x in classes]
            counts = self.counts[replica, own]
            images.append(torch.cat(list(classes)))
            labels.append(torch.from_numpy(np.repeat(np.arange(len(own)), counts)))
            slots.append(torch.from_numpy(np.concatenate([self._slots(replica, each) for each in own])))
        x = pad_sequence(images, batch_first=True)
        y = pad_sequence(labels, batch_first=True).to(x.device)
        places = pad_sequence(slots, batch_first=True, padding_value=self.places.size).to(x.device)
        empty = x.new_zeros(*y.shape, outputs)
        self.places.put(Batch(x, self.heads.labels(y, task), task), places, {OUTPUTS: empty})
        self.done += 1

    def images(self, replica: int) -> list[Tensor]:
        """One replica's images, set by set."""
        x = self.places.kept["x"][replica]
        return [x[self.starts[each] : self.starts[each] + self.counts[replica, each]] for each in range(self.sets)]

    def keep_outputs(self, outputs: Sequence[Sequence[Tensor]]) -> None:
        """What the network says of all images now, for every replica, set by set."""
        for replica, sets in enumerate(outputs):
            places = np.concatenate([self._slots(replica, each) for each in range(self.sets)])
            self.places.kept[OUTPUTS][replica, torch.from_numpy(places).to(sets[0].device)] = torch.cat(list(sets))

    def draw(self) -> Replay | None:
        """A random image of every class of every task that is over, task by task; None while there are none.

        Where a class had no image, another class of its task gives one more.
        """
        if not self.done:
            return None
        return self.places.take([self._chosen(*own) for own in zip(self.counts, self.draws, strict=True)])

    def runs(self, device: torch.device) -> list[Run]:
        """How the images of a draw belong to tasks."""
        found, starts = [], [0, *self.ends]
        for width, group in groupby(range(self.done), key=lambda task: self.widths[task]):
            tasks = list(group)
            rows = slice(starts[tasks[0]], self.ends[tasks[-1]])
            found.append(Run(torch.tensor(tasks, device=device), rows, width))
        return found

    def _chosen(self, counts: Int[np.ndarray, " sets"], draws: Draws) -> Int[np.ndarray, " drawn"]:
        own = np.arange(self.sets)
        for first, end in zip([0, *self.ends], self.ends[: self.done], strict=False):
            own[first:end] = np.resize(own[first:end][counts[first:end] > 0], end - first)
        high = np.minimum(counts[own], self.shares[self.done - 1]) if self.latest else counts[own]
        found: np.ndarray = self.starts[own] + draws.integers(high)
        return found

    def _slots(self, replica: int, each: int) -> Int[np.ndarray, " n"]:
        """The slots of one set that have an image."""
        return np.arange(self.starts[each], self.starts[each] + self.counts[replica, each])

    def members(self, device: torch.device) -> Float[Tensor, "r held logits"]:
        """For every slot, 1 in the column of its class; nothing where it has no image."""
        sets = np.searchsorted(self.starts[: self.sets], np.arange(self.held), side="right") - 1
        filled = np.arange(self.held) - self.starts[sets] < self.counts[:, sets]
        columns = one_hot(to_device(self.columns[sets], device), self.heads.logits)
        return (columns * to_device(filled, device).unsqueeze(-1)).float()

    @property
    def filled(self) -> dict[str, Tensor]:
        """All slots of these sets."""
        return self.places.first(self.held)

    @filled.setter
    def filled(self, known: dict[str, Tensor]) -> None:
        self.places.fill(known)
