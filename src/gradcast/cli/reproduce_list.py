"""``gradcast reproduce list``: all tables and figures, and how much of each has been measured and trained."""

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradcast.cli.report_command import warn
from gradcast.errors import GradcastError
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.experiment import Experiment, Item, load, names
from gradcast.reproduce.measured_tables import measured_rows
from gradcast.reproduce.reproduce import request
from gradcast.runs.jsontext import to_json

LEGEND = (
    "measured: rows whose numbers come with gradcast, in a course of any length;",
    "gradcast reproduce ID --show prints them",
    "of figures 8 to 12: rows of which what happened in every task is known",
    "published: how many of them have published figures, of all rows that have",
    "trained: rows trained here, with all their seeds; begun: with some of them",
    "gradcast reproduce ID trains what is missing; add --quick for a look in minutes.",
    "Figures 1 to 5 of the paper are drawings, so they are not in the list.",
)


def print_list(out: Path, settings: list[str], *, json: bool) -> None:
    """A line a table; one that cannot take the ``settings`` is left out and named."""
    states, refused = dict[str, dict[str, object]](), dict[str, GradcastError]()
    for name in names():
        try:
            states[name] = standing(load(name), out, settings)
        except GradcastError as error:  # settings that rows of other tables may take
            refused[name] = error
    reasons = list(dict.fromkeys(map(str, refused.values())))
    if not states and len(reasons) == 1:
        raise GradcastError(reasons[0])
    for reason in reasons:
        tables = ", ".join(name for name in refused if str(refused[name]) == reason)
        warn([f"left out: {tables}: {reason}"])
    if not states:
        raise GradcastError("no table or figure can be changed so; leave --set out")
    if json:
        typer.echo(to_json(states), nl=False)
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1))
    for title in ("ID", "", "rows", "measured", "published", "trained", "begun"):
        table.add_column(title, justify="left" if title in ("ID", "") else "right")
    for name, state in states.items():
        published = f"{state['published_measured']} of {state['published']}" if state["published"] else ""
        counts = [str(state[key]) for key in ("run", "begun")]
        table.add_row(
            f"[bold]{name}", escape(str(state["title"])), str(state["rows"]), str(state["measured"]), published, *counts
        )
    console = Console()
    console.print(table)
    done, all_rows = (sum(int(str(own[key])) for own in states.values()) for key in ("published_measured", "published"))
    console.print(f"{done} of {all_rows} rows with published figures are measured.\n", highlight=False)
    for sentence in LEGEND:
        console.print(sentence, soft_wrap=True, highlight=False)


def standing(experiment: Experiment, out: Path, settings: list[str]) -> dict[str, object]:
    """How many rows there are, are measured, are trained with all their seeds or some of them, and cannot be run."""
    wanted = request(experiment.header.id, out=out, settings=settings)
    items = wanted.items()
    cells = [Cell(item.setting, wanted.dtype) for item in items if item.setting is not None]
    missing = [len(set(wanted.seeds) - cell.seeds(wanted.cells)) for cell in cells]
    run, begun = missing.count(0), sum(0 < seeds < len(wanted.seeds) for seeds in missing)
    known = measured_rows(experiment.header.id)
    counts = {"rows": len(experiment.items), "measured": len(known), "run": run, "begun": begun}
    counts |= {"published": _published(experiment.items), "published_measured": _published(known)}
    return {
        "title": experiment.header.title,
        **counts,
        "not_reproduced": sum(bool(item.missing) for item in experiment.items),
    }


def _published(items: Sequence[Item]) -> int:
    return sum(item.published is not None for item in items)
