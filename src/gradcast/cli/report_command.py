"""``gradcast report``: one HTML page about finished runs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gradcast.cli.console import print_warning
from gradcast.errors import BAD_INPUT
from gradcast.results.report.read import read_runs
from gradcast.results.report.write import files_beside, write_html

RunsArgument = Annotated[Path, typer.Argument(metavar="DIR", help="a run directory, or a folder of run directories")]
PageOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="the page to write (default: report.html in DIR)")
]


def report(directory: RunsArgument, out: PageOption = None) -> None:
    """Write one HTML page that says what runs found: verdicts, tables, figures, cost, specifications.

    The page needs no network and no other file. Beside it, in a folder of its own, lie all figures as PNG and SVG and
    all tables as CSV and LaTeX. What cannot be read is left out with a warning, and the exit code is 2.
    """
    page = out or directory / "report.html"
    found = read_runs(directory)
    write_html(found, page)
    warn(found.damage)
    typer.echo(f"Report: {page} ({page.stat().st_size / 2**20:.1f} MB; figures and tables: {files_beside(page)})")
    if found.damage:
        raise typer.Exit(BAD_INPUT)


def warn(sentences: list[str]) -> None:
    """What is missing, on standard error."""
    console = Console(stderr=True, highlight=False)
    for sentence in sentences:
        print_warning(console, sentence)
