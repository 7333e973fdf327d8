"""``gradcast methods``: every learner, signal, network, schedule, pool and source by name."""

from collections.abc import Mapping
from dataclasses import asdict
from inspect import getdoc
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from gradcast.cli.options import JsonOption
from gradcast.data.registry import SOURCES
from gradcast.errors import GradcastError
from gradcast.learners.registry import LEARNERS
from gradcast.networks.registry import NETWORKS
from gradcast.runs.jsontext import to_json
from gradcast.signals.registry import SIGNALS
from gradcast.specs.compatibility import RULES
from gradcast.specs.entry import Registry
from gradcast.specs.settings_list import settings_of
from gradcast.specs.table import Table, nearest
from gradcast.streams.pool_tables import POOLS
from gradcast.training.schedule_tables import SCHEDULES

REGISTRIES = {"learner": LEARNERS, "signal": SIGNALS, "model": NETWORKS}


def methods(
    name: Annotated[str, typer.Argument(metavar="NAME", help="only this one, with what each setting means")] = "",
    json: JsonOption = False,
) -> None:
    """List every learner, signal, network, schedule, pool and source, with settings, defaults and cost.

    Methods of installed packages are listed too. At the end: what cannot be combined.
    """
    found = everything()
    if name:
        found = {kind: {own: facts for own, facts in known.items() if own == name} for kind, known in found.items()}
        if not any(found.values()):
            names = [own for each in everything().values() for own in each]
            raise GradcastError(f"there is no method {name!r}{nearest(name, names)}")
    if json:
        typer.echo(to_json(found), nl=False)
        return
    console = Console()
    for kind, known in found.items():
        if known:
            _print(console, kind, known, whole=bool(name))
    if not name:
        console.print("[bold]What cannot be combined[/]")
        for rule in RULES:
            _print_line(console, 2, f"- {escape(rule.about.replace('`', ''))}")


def everything() -> dict[str, dict[str, dict[str, Any]]]:
    """All that there is by table and name."""
    found = {kind: {own: _entry(registry, own) for own in registry} for kind, registry in REGISTRIES.items()}
    found["schedule"] = {name: _table(table) for name, table in SCHEDULES.items()}
    found["pool"] = {name: _table(table) for name, table in POOLS.items()}
    found["stream.source"] = {name: {"about": title} for name, title in SOURCES.items()}
    return found


def _entry(registry: Registry, name: str) -> dict[str, Any]:
    entry = registry[name]
    origin = {} if name in registry.own else {"from": entry.build.__module__}
    return _table(entry.table) | ({"cost": entry.cost} if entry.cost else {}) | origin


def _table(table: type[Table]) -> dict[str, Any]:
    about = (getdoc(table) or "").partition("\n")[0]
    return {"about": about, "settings": [asdict(line) for line in settings_of(table)]}


def _print(console: Console, kind: str, known: Mapping[str, dict[str, Any]], *, whole: bool) -> None:
    console.print(f"[bold]{kind}[/]")
    for name, facts in known.items():
        origin = f" [dim](from {escape(facts['from'])})[/]" if "from" in facts else ""
        _print_line(console, 2, f"[bold cyan]{name}[/]  {escape(facts['about'].replace('``', ''))}{origin}")
        if facts.get("cost"):
            _print_line(console, 6, f"[dim]cost: {escape(facts['cost'])}[/]")
        settings = facts.get("settings", [])
        if whole:
            for line in settings:
                default = line["default"] or "must be given"
                meaning = line["meaning"].replace("``", "")
                _print_line(console, 6, f"{escape(line['name'])} = {escape(default)}  [dim]{escape(meaning)}[/]")
        elif settings:
            short = ", ".join(
                f"{line['name']}={line['default']}" if line["default"] else line["name"] for line in settings
            )
            _print_line(console, 6, f"[dim]{escape(short)}[/]")
    console.print()


def _print_line(console: Console, left: int, markup: str) -> None:
    """A line that is indented, and further lines of it a little more."""
    first, *others = Text.from_markup(markup).wrap(console, console.width - left - 2)
    for margin, line in ((left, first), *((left + 2, line) for line in others)):
        line.rstrip()
        console.print(Text(" " * margin) + line, soft_wrap=True, highlight=False)
