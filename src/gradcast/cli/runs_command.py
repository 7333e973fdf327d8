"""``gradcast runs``: what was trained, how much room it takes, and how machines share it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradcast.cli.options import JsonOption
from gradcast.data.limits import size_in_words
from gradcast.errors import GradcastError
from gradcast.runs.jsontext import to_json
from gradcast.runs.kept_runs import RunSummary, summaries, used_cells
from gradcast.runs.seed_store import STORE, SeedStore, StoredCell

app = typer.Typer(name="runs", no_args_is_help=True, help="Trained runs and seeds: list, prune, merge.")
FolderOption = Annotated[Path, typer.Option("--out", help="folder of run directories")]


@app.command("list")
def list_runs(out: FolderOption = Path("runs"), json: JsonOption = False) -> None:
    """List run directories and the cells of the store, with seeds and sizes.

    A cell is one setting with its data and arithmetic. Every run takes the seeds that it needs from there. Files of the
    store and of run directories are the same files: they take room once.
    """
    runs, cells, used = summaries(out), SeedStore(out / STORE).cells(), used_cells(out)
    if json:
        facts = {
            "runs": [vars(run) for run in runs],
            "cells": [{**vars(cell), "used": cell.name in used} for cell in cells],
        }
        typer.echo(to_json(facts), nl=False)
        return
    console = Console()
    if not runs and not cells:
        console.print(f"Nothing was trained in {escape(str(out))}.", soft_wrap=True)
        return
    console.print(_runs_table(runs))
    console.print(_cells_table(cells, used))
    total = size_in_words(sum(cell.size for cell in cells))
    console.print(f"{len(cells)} cells, {total}, in {escape(str(out / STORE))}", soft_wrap=True)


@app.command()
def prune(
    out: FolderOption = Path("runs"),
    everything: Annotated[
        bool, typer.Option("--all", metavar="", help="also cells that runs use; those runs stay whole")
    ] = False,
    dry: Annotated[bool, typer.Option("--dry-run", metavar="", help="say what would go, and delete nothing")] = False,
) -> None:
    """Delete cells of the store that no run directory uses any more.

    A run directory that you no longer need is deleted by hand; after that its cells are unused.
    """
    store, used = SeedStore(out / STORE), used_cells(out)
    going = [cell for cell in store.cells() if everything or cell.name not in used]
    for cell in going:
        typer.echo(f"{size_in_words(cell.size):>10}  {cell.name}  seeds {_seeds(cell.seeds)}")
    if not going:
        typer.echo("every cell is used by a run")
        return
    size = sum(cell.size for cell in going) if dry else store.remove([cell.name for cell in going])
    typer.echo(f"{'would free' if dry else 'freed'} {size_in_words(size)} in {len(going)} cells")


@app.command()
def merge(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="the folder 'runs' of another machine, copied here")],
    out: FolderOption = Path("runs"),
) -> None:
    """Take over the trained seeds of another machine: what it has trained is not trained here again.

    The same command that was run there, or one for all seeds, then puts runs and tables together from both.
    """
    other = SeedStore(folder if folder.name == STORE else folder / STORE)
    if not other.path.is_dir():
        raise GradcastError(f"{other.path} is not there; give the folder that --out named on the other machine")
    if other.path.resolve() == (out / STORE).resolve():
        raise GradcastError(f"{folder} is the folder of --out itself; give another machine's")
    came = SeedStore(out / STORE).merge(other)
    cells = len({name for name, _ in came})
    known = sum(len(cell.seeds) for cell in other.cells()) - len(came)
    typer.echo(f"{len(came)} seeds of {cells} cells came to {out / STORE}; {known} were here already")


def _runs_table(runs: list[RunSummary]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for title in ("run", "rows", "seeds", "size"):
        table.add_column(title, justify="left" if title == "run" else "right", overflow="fold")
    for run in runs:
        table.add_row(escape(run.name), f"{run.finished} of {run.rows}", str(len(run.seeds)), size_in_words(run.size))
    return table


def _cells_table(cells: list[StoredCell], used: set[str]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for title in ("cell", "seeds", "size", ""):
        table.add_column(title, justify="right" if title == "size" else "left", overflow="fold")
    for cell in cells:
        note = "" if cell.name in used else "[dim]no run uses it"
        table.add_row(escape(cell.name), _seeds(cell.seeds), size_in_words(cell.size), note)
    return table


def _seeds(seeds: list[int]) -> str:
    """Numbers, and ranges of them."""
    parts: list[list[int]] = []
    for seed in seeds:
        if parts and parts[-1][-1] == seed - 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
