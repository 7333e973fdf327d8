"""Methods by name: one entry a method, the package's own and those of installed packages."""

import inspect
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.metadata import entry_points
from operator import or_
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import Field

from gradcast.errors import message_of, warn
from gradcast.specs.table import Table

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Entry:
    """All that the package knows of a method before it is made.

    ``build`` makes it from its table and a ``Context``. Several names may share a table. ``traits`` are facts that
    decide what it can be combined with (see ``compatibility``).
    """

    names: tuple[str, ...]
    table: type[Table]
    build: Callable[..., Any]
    label: str | Callable[[Any], str]  # what rows with it are called
    cost: str = ""  # passes and memory beyond a plain step, in words
    traits: frozenset[str] = frozenset()

    def describe(self, table: Table) -> str:
        """What a row with these settings is called."""
        return self.label if isinstance(self.label, str) else self.label(table)

    @property
    def about(self) -> str:
        """One line of meaning."""
        return (inspect.getdoc(self.table) or "").partition("\n")[0]


class Registry(Mapping[str, Entry]):
    """Entries by name; installed packages add theirs by an entry point of the group ``gradcast.KINDs``."""

    def __init__(self, kind: str, own: Sequence[Entry]) -> None:
        self.kind, self.entries = kind, dict[str, Entry]()
        for entry in own:
            self._add(entry)
        self.own = frozenset(self.entries)
        for name, entry in third_parties(kind, Entry, self.own).items():
            try:
                self._add(entry)
            except ValueError as error:
                warn(f"the {kind} {name!r} is left out ({error})")

    def _add(self, entry: Entry) -> None:
        known = next((name for name in entry.names if name in self.entries), None)
        if known is not None:
            raise ValueError(f"there are two {self.kind}s called {known!r}")
        self.entries |= dict.fromkeys(entry.names, entry)

    def __getitem__(self, name: str) -> Entry:
        return self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def tables(self) -> dict[str, type[Table]]:
        """The settings of each, by name."""
        return {name: entry.table for name, entry in self.entries.items()}

    def union(self) -> Any:
        """The type of a table that may be any of them; its key ``name`` says which."""
        tables = list(dict.fromkeys(entry.table for entry in self.entries.values()))
        return Annotated[reduce(or_, tables), Field(discriminator="name")] if len(tables) > 1 else tables[0]

    def code(self, table: Table) -> Path | None:
        """The file of a third party's method, which is part of a run's identity; None for the package's own."""
        name = str(getattr(table, "name", ""))
        if name in self.own:
            return None
        found = inspect.getsourcefile(inspect.unwrap(self.entries[name].build))
        return None if found is None else Path(found)


def third_parties(kind: str, what: type[Thing], taken: Container[str]) -> dict[str, Thing]:
    """What installed packages add by entry points of the group ``gradcast.KINDs``; what is no use is named."""
    found: dict[str, Thing] = {}
    for point in entry_points(group=f"gradcast.{kind}s"):
        try:
            thing = point.load()
            if not isinstance(thing, what):
                raise TypeError(f"{point.value} is a {type(thing).__name__}, not a gradcast.{what.__name__}")
            if point.name in taken or point.name in found:
                raise ValueError("there is one of this name already")
            found[point.name] = thing
        except Exception as error:  # noqa: BLE001 -- anybody's code may raise anything
            warn(f"the {kind} {point.name!r} is left out ({message_of(error)})")
    return found


def names_of(table: type[Table]) -> tuple[str, ...]:
    """What a table's key ``name`` may be."""
    return get_args(table.model_fields["name"].annotation)


def entry(
    table: type[Table], build: Callable[..., Any], label: str | Callable[[Any], str], cost: str = "", *traits: str
) -> Entry:
    """An entry under the names that its table allows."""
    return Entry(names_of(table), table, build, label, cost, frozenset(traits))
