"""The entry of a signal: what the package knows of it before it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradcast.specs.entry import Entry, names_of
from gradcast.specs.table import Table
from gradcast.streams.draws import Views


def _plain(table: Any) -> Views:
    return Views()


@dataclass(frozen=True)
class SignalEntry(Entry):
    """``views`` says, from the table, what the signal wants to see of each unlabelled image."""

    views: Callable[[Any], Views] = _plain


def signal_entry(
    table: type[Table],
    build: Callable[..., Any],
    label: str | Callable[[Any], str],
    cost: str,
    *traits: str,
    views: Callable[[Any], Views] = _plain,
) -> SignalEntry:
    """An entry under the names that its table allows."""
    return SignalEntry(names_of(table), table, build, label, cost, frozenset(traits), views)
