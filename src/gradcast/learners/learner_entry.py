"""The entry of a learner: what the package knows of it before it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from gradcast.replicas.heads import Heads
from gradcast.specs.entry import Entry, names_of
from gradcast.specs.table import Table

Recalled = Callable[[Any, int, int], tuple[int, int]]


@dataclass(frozen=True)
class LearnerEntry(Entry):
    """Learners may bring a network, heads and a way of training of their own.

    ``network`` and ``heads`` take the learner's table, the model's table, (the images' shape,) classes a task and
    tasks. ``trainer`` takes the table and a ``Plan``. ``recalled`` says how many images of earlier steps pass in a step
    after so many tasks with such a batch, and how many gradients are made of them: seeds at once depend on it.
    """

    network: Callable[..., nn.Module] | None = None
    heads: Callable[..., Heads] | None = None
    trainer: Callable[..., Any] | None = None
    recalled: Recalled = lambda table, past, batch: (0, 0)


def learner_entry(
    table: type[Table],
    build: Callable[..., Any],
    label: str | Callable[[Any], str],
    cost: str,
    *traits: str,
    **own: Any,
) -> LearnerEntry:
    """An entry under the names that its table allows."""
    return LearnerEntry(names_of(table), table, build, label, cost, frozenset(traits), **own)
