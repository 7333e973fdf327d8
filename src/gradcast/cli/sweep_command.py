"""``gradcast sweep``: tune settings of a row."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradcast.cli.console import print_results
from gradcast.cli.options import (
    MACHINE,
    AtOnceOption,
    DataOption,
    DeviceOption,
    JsonOption,
    OnOption,
    OutOption,
    SetOption,
    ThreadsOption,
    data_folder,
)
from gradcast.cli.threads import choose_threads
from gradcast.devices import keep_freed_memory
from gradcast.errors import GradcastError
from gradcast.runs.jsontext import parse_json
from gradcast.specs import text as specfile
from gradcast.specs.text import value_text
from gradcast.sweeps.search import Search
from gradcast.sweeps.sweep import SweepResult
from gradcast.sweeps.sweep import sweep as run_sweep
from gradcast.sweeps.sweep_files import BEST, PAGE, RECORD
from gradcast.sweeps.trials import Trial

SHOWN = 10  # trials of the table
SEARCH = "Search"  # a part of --help


def sweep(
    what: Annotated[
        str, typer.Argument(metavar="PRESET|SPEC.toml", help="a preset (see [bold]gradcast presets[/]) or a file")
    ] = "demo",
    over: Annotated[
        list[str] | None,
        typer.Option("--over", metavar="KEY=VALUES", help="values: 0.1,0.3 or log:0.01:0.3:5 or lin:0:1:5; repeatable"),
    ] = None,
    row: Annotated[
        str | None, typer.Option(help="the row to tune (default: the only one that is not the base)")
    ] = None,
    search: Annotated[
        Search, typer.Option(help="every combination, random ones, or Optuna's TPE", rich_help_panel=SEARCH)
    ] = "grid",
    trials: Annotated[
        int | None, typer.Option(min=1, help="how many, for random and tpe", rich_help_panel=SEARCH)
    ] = None,
    search_seed: Annotated[int, typer.Option(min=0, help="of random and tpe", rich_help_panel=SEARCH)] = 0,
    tune_seeds: Annotated[
        str, typer.Option(metavar="N", help="seeds of a trial: 100 to 99+N, or a list", rich_help_panel=SEARCH)
    ] = "3",
    tune_tasks: Annotated[
        int | None, typer.Option(min=1, help="tune on the first tasks alone", rich_help_panel=SEARCH)
    ] = None,
    validation: Annotated[
        float, typer.Option(help="share of the training images that trials are tested on", rich_help_panel=SEARCH)
    ] = 0.1,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", metavar="", help="stop trials below the median of finished ones", rich_help_panel=SEARCH
        ),
    ] = False,
    prune_after: Annotated[
        int, typer.Option(min=1, help="tasks that no trial is stopped before", rich_help_panel=SEARCH)
    ] = 2,
    seeds: Annotated[int | None, typer.Option(min=1, help="seeds 0 to N-1 of the final comparison [10]")] = None,
    settings: SetOption = None,
    data: DataOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    on: OnOption = None,
    at_once: AtOnceOption = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="trials that tpe proposes at once, with --on", rich_help_panel=MACHINE)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Tune settings of a row, then compare the best with the base on fresh paired seeds.

    Trials have seeds of their own and are tested on training images that are held out: no test image is looked at
    before the final comparison. The same command trains no trial twice.
    """
    if at_once and not on:
        raise GradcastError("--at-once divides the seeds of a row for --on ray; leave it out, or add --on ray")
    choose_threads(threads, device, elsewhere=on is not None)
    keep_freed_memory()
    spec = specfile.load(what, settings or [])
    found = run_sweep(
        spec,
        over or [],
        out=out,
        data=data_folder(data),
        device=device,
        threads=threads if on else None,
        progress=True,
        on=on,
        at_once=at_once,
        row=row or "",
        search=search,
        trials=trials,
        search_seed=search_seed,
        tune_seeds=_seeds(tune_seeds),
        tune_tasks=tune_tasks,
        validation=validation,
        prune=prune,
        prune_after=prune_after,
        seeds=final_seeds(spec.seeds, seeds, settings or []),
        parallel=parallel,
    )
    if json:
        typer.echo((found.directory / RECORD).read_text(encoding="utf-8"), nl=False)
    else:
        print_sweep(Console(), found)


def final_seeds(own: list[int], seeds: int | None, settings: list[str]) -> int | list[int]:
    """--seeds, else --set seeds=[...], else ten; they may not be said twice."""
    told = [setting for setting in settings if setting.partition("=")[0].strip() == "seeds"]
    if told and seeds is not None:
        raise GradcastError(f"--seeds {seeds} and --set {told[0]} contradict each other; leave one of them out")
    return own if told else seeds or 10


def print_sweep(console: Console, found: SweepResult) -> None:
    """The best trials, the final comparison, and where everything is."""
    known = sorted((own for own in found.trials if own.state == "finished"), key=lambda own: -(own.mean or 0.0))
    states = [own.state for own in found.trials]
    told = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    table = Table(title=f"Trials: {told}; accuracy (%)", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("trial", justify="right")
    for key in found.best.values:
        table.add_column(key, justify="right", overflow="fold")
    for seed in found.best.accuracy:
        table.add_column(f"seed {seed}", justify="right")
    table.add_column("mean", justify="right")
    for own in known[:SHOWN]:
        table.add_row(*_cells(own), style="bold" if own.number == found.best.number else None)
    console.print(table)
    if len(known) > SHOWN:
        console.print(f"[dim]and {len(known) - SHOWN} more")
    for own in found.trials:
        if own.state in ("refused", "failed", "diverged"):
            values = ", ".join(f"{key} = {value_text(value)}" for key, value in own.values.items())
            console.print(f"[yellow]trial {own.number}[/] ({escape(values)}) {own.state}: {escape(own.note)}")
    console.print("\nThe best against the base, on fresh seeds and the test images:")
    print_results(console, found.result.rows, found.result.directory)
    if found.caution:
        console.print(f"[yellow]note:[/] {escape(found.caution)}", highlight=False)
    console.print(f"Sweep: {escape(str(found.directory / PAGE))} (trials.csv, sweep.json)", soft_wrap=True)
    console.print(f"Repeat the best: gradcast run {escape(str(found.directory / BEST))}", soft_wrap=True)


def _cells(own: Trial) -> list[str]:
    values = [escape(value if isinstance(value, str) else value_text(value)) for value in own.values.values()]
    each = [f"{100 * share:.2f}" for share in own.accuracy.values()]
    return [str(own.number), *values, *each, f"{100 * (own.mean or 0.0):.2f}"]


def _seeds(text: str) -> Any:  # noqa: ANN401 -- a number or a list, which the table checks
    """The seeds of a trial: how many, or which."""
    try:
        return parse_json(f"[{text}]") if "," in text else int(text)
    except ValueError:
        raise GradcastError(f"--tune-seeds {text!r} is neither a number nor a list such as 100,101") from None
