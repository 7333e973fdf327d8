"""The entry of a signal: what the package knows of it before it is made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradcast.specs.entry import Entry, names_of
from gradcast.specs.table import Table
from gradcast.streams.draws import Views


def _plain(table: Any) -> Views:
    return Views()


def _fits(table: Any, shape: Sequence[int]) -> str | None:
    return None


def _nothing(table: Any, shape: Sequence[int]) -> int:
    return 0


@dataclass(frozen=True)
class SignalEntry(Entry):
    """``views`` says, from the table, what the signal wants to see of each unlabelled image.

    From the table and the shape of what the network sees of an image, ``problem`` says in a sentence why the signal
    cannot work there, if it cannot, and ``weights`` how many weights it trains whose number the model does not tell.
    """

    views: Callable[[Any], Views] = _plain
    problem: Callable[[Any, Sequence[int]], str | None] = _fits
    weights: Callable[[Any, Sequence[int]], int] = _nothing


def signal_entry(
    table: type[Table],
    build: Callable[..., Any],
    label: str | Callable[[Any], str],
    cost: str,
    *traits: str,
    views: Callable[[Any], Views] = _plain,
    problem: Callable[[Any, Sequence[int]], str | None] = _fits,
    weights: Callable[[Any, Sequence[int]], int] = _nothing,
) -> SignalEntry:
    """An entry under the names that its table allows."""
    return SignalEntry(names_of(table), table, build, label, cost, frozenset(traits), views, problem, weights)
