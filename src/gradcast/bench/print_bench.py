"""How the results of ``gradcast bench`` are shown in a terminal."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from gradcast.bench.bench_result import Bench
from gradcast.bench.bench_tables import Part, machine_in_words, parts

WORDS = ("network", "varied", "size: ms", "arithmetic", "formulation", "learner")  # columns that begin on the left


def print_bench(console: Console, found: Bench) -> None:
    """The machine, then a table or a few sentences of each part that was measured."""
    console.print(f"{machine_in_words(found)}\n", highlight=False)
    for part in parts(found).values():
        console.print(_table(part) if part.rows else part.title)
        if part.remarks:
            console.print(f"{' '.join(part.remarks)}\n")


def _table(part: Part) -> Table:
    table = Table(title=part.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in part.headings:
        table.add_column(heading, justify="left" if heading in WORDS else "right", no_wrap=True)
    for row in part.rows:
        table.add_row(*row)
    return table
