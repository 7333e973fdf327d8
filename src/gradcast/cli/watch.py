"""``gradcast watch``: a report that follows runs while they train."""

from datetime import datetime
from typing import Annotated

import typer

from gradcast.cli.report_command import PageOption, RunsArgument
from gradcast.results.report.live import follow


def watch(
    directory: RunsArgument,
    out: PageOption = None,
    every: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="how often to look")] = 10,
) -> None:
    """Keep the report of runs up to date while they train; open the page once, it reloads itself.

    Ends when every row is finished, or with Ctrl-C.
    """
    page = out or directory / "report.html"
    typer.echo(f"Page: {page}")
    try:
        follow(directory, page, every=every, say=lambda line: typer.echo(f"{datetime.now():%H:%M:%S}  {line}"))
    except KeyboardInterrupt:
        typer.echo("stopped")
