"""``gradcast suite``: train all runs and sweeps of a file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradcast.cli.console import complain, print_sentence
from gradcast.cli.options import (
    AtOnceOption,
    DataOption,
    DeviceOption,
    JsonOption,
    OnOption,
    OutOption,
    ThreadsOption,
    data_folder,
)
from gradcast.cli.threads import choose_threads
from gradcast.devices import keep_freed_memory
from gradcast.errors import BAD_INPUT, GradcastError
from gradcast.results.report.words import number, signed_points, verdicts
from gradcast.runs.jsontext import to_json
from gradcast.sweeps.suite import SuiteResult, read_suite, run_suite


def suite(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.toml", help="a TOML file with the tables run and sweep, one for each")
    ],
    data: DataOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    on: OnOption = None,
    at_once: AtOnceOption = None,
    json: JsonOption = False,
) -> None:
    """Train all runs and sweeps of a file, as far as they are missing, and write one report of them.

    A run that fails does not stop the others; its sentence comes at the end, and the exit code is 2.
    """
    if at_once and not on:
        raise GradcastError("--at-once divides the seeds of a row for --on ray; leave it out, or add --on ray")
    wanted = read_suite(file)
    choose_threads(threads, device, elsewhere=on is not None)
    keep_freed_memory()
    made = run_suite(
        wanted,
        out=out,
        data=data_folder(data),
        device=device,
        threads=threads,
        progress=True,
        on=on,
        at_once=at_once,
    )
    if json:
        typer.echo(to_json(as_dict(made)), nl=False)
    else:
        print_suite(Console(), made)
    for sentence in made.failed:
        complain(sentence)
    if made.failed:
        raise typer.Exit(BAD_INPUT)


def as_dict(made: SuiteResult) -> dict[str, object]:
    """The whole suite by name, for JSON."""
    parts = {
        title: {
            "directory": str(result.directory),
            "verdicts": verdicts(result.rows),
            "rows": [row.as_dict() for row in result.rows],
        }
        for title, result in made.results.items()
    }
    report = None if made.report is None else str(made.report)
    return {"report": report, "parts": parts, "cautions": made.cautions, "failed": made.failed}


def print_suite(console: Console, made: SuiteResult) -> None:
    """One table of all rows, the verdicts, and where the report is."""
    if made.report is None:
        return
    title = "Mean over seeds ± 95 % confidence interval"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for heading in ("", "row"):
        table.add_column(heading, overflow="fold")
    for heading in ("seeds", "ACC (%)", "against base"):
        table.add_column(heading, justify="right", no_wrap=True)
    for part, result in made.results.items():
        for place, row in enumerate(result.rows):
            gain = signed_points(row.paired)
            name = "" if place else escape(part)
            table.add_row(name, escape(row.label), str(len(row.seeds)), number(row.over_seeds("acc"), 100), gain)
        table.add_section()
    console.print(table)
    for part, result in made.results.items():
        for sentence in verdicts(result.rows):
            print_sentence(console, f"{part}: {sentence}")
    for sentence in made.cautions:
        console.print(f"[yellow]note:[/] {escape(sentence)}", highlight=False)
    console.print(f"Report: {escape(str(made.report))}", soft_wrap=True)
