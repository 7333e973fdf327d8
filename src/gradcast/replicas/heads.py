"""Which columns of the output layer belong to a task, and over which of them its loss is taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

HeadsKind = Literal["shared", "masked", "seen", "all"]
TaskKnowledge = Literal["known", "unknown", "both"]  # whether a test image is answered with its task, or both ways
ABSENT = -30_000.0  # the logit of a class that does not exist for a task: probability and gradient are 0


@dataclass(frozen=True)
class Heads:
    """Columns of every task's classes, in the order of the task's labels, and which of them the loss is taken over.

    ``shared``: all tasks have the same columns. Otherwise every class has one, numbered in the order in which classes
    first appear, so that those of all tasks so far come first. The loss is over the task's own columns (``masked``),
    those of all tasks so far (``seen``) or ``all``. Logits have the same ``width`` in every task: where a task has
    fewer columns, the others are ``ABSENT``.

    A network may say more than logits: ``extra`` columns after them, which belong to no task.
    """

    task_columns: tuple[tuple[int, ...], ...]
    kind: HeadsKind = "shared"
    extra: int = 0

    @classmethod
    def of(cls, task_classes: Sequence[tuple[int, ...]], kind: HeadsKind, extra: int = 0) -> "Heads":
        """A column for every class of a stream.

        ``masked`` tasks that all have the same classes are told apart by their columns: each has its own.
        """
        if kind == "shared" or (kind == "masked" and len(set(task_classes)) == 1):
            return cls.even(max(map(len, task_classes)), len(task_classes), masked=kind == "masked", extra=extra)
        places = {label: place for place, label in enumerate(dict.fromkeys(chain.from_iterable(task_classes)))}
        return cls(tuple(tuple(places[label] for label in own) for own in task_classes), kind, extra)

    @classmethod
    def even(cls, width: int, tasks: int = 1, *, masked: bool = False, extra: int = 0) -> "Heads":
        """Tasks of ``width`` classes each: one head that all share, or a slice of columns for each."""
        starts = [task * width if masked else 0 for task in range(tasks)]
        columns = tuple(tuple(range(start, start + width)) for start in starts)
        return cls(columns, "masked" if masked else "shared", extra)

    @property
    def tasks(self) -> int:
        """How many tasks have columns."""
        return len(self.task_columns)

    @property
    def masked(self) -> bool:
        """Whether a task's loss is taken over its own columns alone."""
        return self.kind == "masked"

    @cached_property
    def logits(self) -> int:
        """Columns that are logits."""
        return 1 + max(chain.from_iterable(self.task_columns))

    @property
    def outputs(self) -> int:
        """Columns of what the network says."""
        return self.logits + self.extra

    @cached_property
    def widest(self) -> int:
        """Classes of the task that has most."""
        return max(map(len, self.task_columns))

    @property
    def width(self) -> int:
        """Logits that a loss sees, absent ones included: equally many in every task."""
        return self.widest if self.masked else self.logits

    @property
    def absent(self) -> float | None:
        """The logit of classes that do not exist for some task; None where there are none such."""
        return ABSENT if self.kind == "seen" or (self.masked and not self._even) else None

    @cached_property
    def _even(self) -> bool:
        """Whether tasks have slices of columns, equally many, one after another."""
        return self.task_columns == Heads.even(self.widest, self.tasks, masked=True).task_columns

    @cached_property
    def seen_by(self) -> tuple[int, ...]:
        """For every task, the number of columns of its classes and of all tasks before it."""
        return tuple(accumulate((1 + max(own) for own in self.task_columns), max))

    def new_columns(self, task: int) -> slice:
        """Columns of the classes that come with this task for the first time; those of old ones lie before them."""
        return slice(self.seen_by[task - 1] if task else 0, self.seen_by[task])

    def columns(self, outputs: Float[Tensor, "*any outputs"], task: int) -> Float[Tensor, "*any width"]:
        """What the loss of a step in this task sees."""
        if self.masked:
            return self._slice(outputs, task)
        if self.kind == "seen":
            return pad(self.seen(outputs, task), (0, self.logits - self.seen_by[task]), value=ABSENT)
        return self._logits(outputs)

    def columns_at(
        self, outputs: Float[Tensor, "*any outputs"], tasks: Int[Tensor, "*some"], task: int
    ) -> Float[Tensor, "*any width"]:
        """The same for images of several ``tasks``, which broadcast against the leading axes, in a step of ``task``."""
        return self.own(outputs, tasks) if self.masked else self.columns(outputs, task)

    def at_outputs(
        self,
        slopes: Float[Tensor, "*any width"],
        outputs: Float[Tensor, "*any outputs"],
        tasks: Int[Tensor, "*some"],
        task: int,
    ) -> Float[Tensor, "*any outputs"]:
        """From a gradient at those columns to one at all outputs."""
        every = torch.zeros_like(outputs, requires_grad=True)
        with torch.enable_grad():
            columns = self.columns_at(every, tasks, task)
        return torch.autograd.grad(columns, every, slopes)[0]

    def slopes(
        self, outputs: Float[Tensor, "*any outputs"], tasks: Int[Tensor, "*some"], task: int
    ) -> Float[Tensor, "*any width"]:
        """A gradient at all outputs in the same columns; there is none where a class is absent."""
        found = self.columns_at(outputs, tasks, task)
        return found.masked_fill(found == ABSENT, 0.0)

    def seen(self, outputs: Float[Tensor, "*any outputs"], task: int) -> Float[Tensor, "*any columns"]:
        """The columns of this task and of all before it."""
        return self._logits(outputs) if self.kind == "shared" else outputs.narrow(-1, 0, self.seen_by[task])

    def own(self, outputs: Float[Tensor, "*any outputs"], tasks: Int[Tensor, "*some"]) -> Float[Tensor, "*any width"]:
        """The columns of every image's own task, whatever the loss is taken over."""
        logits = self._logits(outputs)
        if self.kind == "shared":
            return logits
        if self._even:
            by_task: Tensor = logits.unflatten(-1, (self.tasks, self.widest))
            index = tasks.expand(logits.shape[:-1])[..., None, None]
            return by_task.take_along_dim(index, -2).squeeze(-2)
        columns, exists = _tables(self, logits.device)
        taken = logits.take_along_dim(columns[tasks].expand(*logits.shape[:-1], -1), -1)
        return torch.where(exists[tasks], taken, ABSENT)

    def labels(self, y: Int[Tensor, "*any"], tasks: Int[Tensor, "*some"] | int) -> Int[Tensor, "*any"]:
        """From places among a task's classes to places among the logits that a loss sees: the labels of batches."""
        return y if self.kind in ("shared", "masked") else self.column(y, tasks)

    def places(self, y: Int[Tensor, "*any"], task: int) -> Int[Tensor, "*any"]:
        """From labels of a task's batches back to places among its classes."""
        if self.kind in ("shared", "masked"):
            return y
        if self._even:
            return y - task * self.widest
        return (y.unsqueeze(-1) == _tables(self, y.device)[0][task]).int().argmax(-1)

    def classes(self, y: Int[Tensor, "*any"], tasks: Int[Tensor, "*some"] | int) -> Int[Tensor, "*any"]:
        """From labels of batches to a number for every class: its column."""
        return self.column(y, tasks) if self.masked else y

    def column(self, y: Int[Tensor, "*any"], tasks: Int[Tensor, "*some"] | int) -> Int[Tensor, "*any"]:
        """The columns of places among a task's classes."""
        if self.kind == "shared":
            return y
        return tasks * self.widest + y if self._even else _tables(self, y.device)[0][tasks, y]

    def _slice(self, outputs: Tensor, task: int) -> Tensor:
        own = self.task_columns[task]
        first, count = own[0], len(own)
        if own != tuple(range(first, first + count)):
            columns, exists = _tables(self, outputs.device)
            return torch.where(exists[task], outputs.index_select(-1, columns[task]), ABSENT)
        found = outputs.narrow(-1, first, count)
        return found if count == self.widest else pad(found, (0, self.widest - count), value=ABSENT)

    def _logits(self, outputs: Float[Tensor, "*any outputs"]) -> Float[Tensor, "*any logits"]:
        return outputs.narrow(-1, 0, self.logits) if self.extra else outputs


@lru_cache(maxsize=64)
def _tables(heads: Heads, device: torch.device) -> tuple[Int[Tensor, "tasks width"], Bool[Tensor, "tasks width"]]:
    """Every task's columns on the device, filled up with column 0, and which of them exist."""
    rows = [[*own, *[-1] * (heads.widest - len(own))] for own in heads.task_columns]
    table = torch.tensor(rows, device=device)
    return table.clamp_min(0), table >= 0
