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
    tasks. ``models`` are the names of networks that it can make its own of. ``adapt`` takes the table, a network of the
    model's table and its number of outputs, and gives what is trained in its place. ``trainer`` takes the table and a
    ``Plan``. ``recalled`` says how many images of earlier steps pass in a step after so many tasks with such a batch,
    and how many gradients are made of them: seeds at once depend on it. ``aside`` says how many images of every class
    of a task are set aside for the learner, in tasks of so many classes.
    """

    network: Callable[..., nn.Module] | None = None
    adapt: Callable[..., nn.Module] | None = None
    heads: Callable[..., Heads] | None = None
    models: tuple[str, ...] = ()
    trainer: Callable[..., Any] | None = None
    recalled: Recalled = lambda table, past, batch: (0, 0)
    aside: Callable[[Any, int], int] = lambda table, width: 0


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
