"""``gradcast run`` and ``gradcast presets``."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gradcast.cli.options import RowsOption, SeedsOption, SetOption, row_names, with_seeds
from gradcast.cli.training_options import trains
from gradcast.specs import text as specfile
from gradcast.specs.chosen_rows import with_rows
from gradcast.specs.spec import Spec


@trains
def run(
    what: Annotated[
        str, typer.Argument(metavar="PRESET|SPEC.toml", help="a preset (see [bold]gradcast presets[/]) or a file")
    ] = "demo",
    settings: SetOption = None,
    seeds: SeedsOption = None,
    rows: RowsOption = None,
) -> Spec:
    """Train every row of a specification over paired seeds and say whether unlabelled data helped.

    A finished row is never trained again: the same command prints its stored result. An unfinished one goes on from
    its newest checkpoint, to the same bytes. Without an argument the preset [bold]demo[/] is trained.
    """
    return with_rows(specfile.load(what, with_seeds(settings or [], seeds)), row_names(rows))


def presets() -> None:
    """List the presets that [bold]gradcast run[/] knows."""
    table = Table.grid(padding=(0, 2))
    for name, title in specfile.presets().items():
        table.add_row(f"[bold]{name}", title)
    Console().print(table)
