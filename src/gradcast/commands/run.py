"""``gradcast run`` and ``gradcast presets``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gradcast import specfile
from gradcast.advice import advice
from gradcast.checkpoint.keeper import Safety, Start
from gradcast.commands.options import (
    CheckpointMinutesOption,
    CheckpointStepsOption,
    DataOption,
    DeterministicOption,
    DeviceOption,
    FreshOption,
    JsonOption,
    LogOption,
    OnNanOption,
    OutOption,
    ResumeOption,
    SeedsOption,
    SetOption,
    ShowOption,
    ThreadsOption,
    data_folder,
)
from gradcast.console import ProgressDisplay, print_results
from gradcast.environment import be_deterministic, keep_freed_memory, use_threads
from gradcast.errors import GradcastError
from gradcast.result import RowResult
from gradcast.run import run as run_spec
from gradcast.spec import Spec
from gradcast.store import RunDirectory, to_json
from gradcast.trackers import tracker


def run(
    what: Annotated[
        str, typer.Argument(metavar="PRESET|SPEC.toml", help="a preset (see [bold]gradcast presets[/]) or a file")
    ] = "digits",
    settings: SetOption = None,
    seeds: SeedsOption = None,
    data: DataOption = None,
    out: OutOption = Path("runs"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    log: LogOption = None,
    checkpoint_minutes: CheckpointMinutesOption = 10.0,
    checkpoint_steps: CheckpointStepsOption = None,
    resume: ResumeOption = False,
    fresh: FreshOption = False,
    on_nan: OnNanOption = "stop",
    deterministic: DeterministicOption = False,
    json: JsonOption = False,
    show: ShowOption = False,
) -> None:
    """Train every row of a specification over paired seeds and say whether unlabelled data helped.

    A finished row is never trained again: the same command prints its stored result. An unfinished one goes on from
    its newest checkpoint, to the same bytes.
    """
    chosen = settings or []
    spec = specfile.load(what, [*chosen, f"seeds={list(range(seeds))}"] if seeds else chosen)
    if show:
        show_specification(spec, json=json)
        return
    safety = Safety(checkpoint_minutes, checkpoint_steps, begin(resume=resume, fresh=fresh), on_nan)
    train(
        spec,
        safety,
        data=data,
        out=out,
        device=device,
        threads=threads,
        deterministic=deterministic,
        log=log or [],
        json=json,
    )


def show_specification(spec: Spec, *, json: bool) -> None:
    """All of it, as the file that would say so."""
    if json:
        raise GradcastError("--show prints the specification as TOML, and --json results; leave one of them out")
    typer.echo(specfile.dump(spec), nl=False)


def begin(*, resume: bool, fresh: bool) -> Start:
    """Where a run begins, by its options."""
    if resume and fresh:
        raise GradcastError("--resume goes on with an unfinished run and --fresh starts it over; leave one out")
    return "resume" if resume else "fresh" if fresh else "auto"


def train(
    spec: Spec,
    safety: Safety,
    *,
    data: Path | None,
    out: Path,
    device: str,
    threads: int | None,
    deterministic: bool,
    log: Sequence[str],
    json: bool,
) -> None:
    """Train what is missing under a person's eyes, and print the result."""
    if deterministic:
        be_deterministic(threads)
    trackers = [tracker(name) for name in log]
    use_threads(1 if deterministic else threads)
    keep_freed_memory()
    with ProgressDisplay(Console(stderr=True)) as display:
        directory, results = run_spec(
            spec, out=out, data=data_folder(data), device=device, display=display, trackers=trackers, safety=safety
        )
    _print(directory, results, json=json)
    for own in trackers:
        typer.echo(own.where(), err=json)


def presets() -> None:
    """List the presets that [bold]gradcast run[/] knows."""
    table = Table.grid(padding=(0, 2))
    for name, title in specfile.presets().items():
        table.add_row(f"[bold]{name}", title)
    Console().print(table)


def _print(directory: RunDirectory, results: list[RowResult], *, json: bool) -> None:
    if json:
        typer.echo(
            to_json({"directory": str(directory.path), "rows": [result.as_dict() for result in results]}), nl=False
        )
    else:
        print_results(Console(), results, directory.path, advice(directory.spec, results))
