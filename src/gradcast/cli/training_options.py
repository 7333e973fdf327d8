"""What all commands share that train a specification: their options, and the training under a person's eyes."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gradcast.cli.console import complain, print_results
from gradcast.cli.options import (
    CHECKPOINTS,
    FILES,
    AtOnceOption,
    DataOption,
    DeterministicOption,
    DeviceOption,
    FreshOption,
    JsonOption,
    MinutesOption,
    OnOption,
    OutOption,
    ResumeOption,
    StepsOption,
    ThreadsOption,
    data_folder,
)
from gradcast.cli.threads import choose_threads
from gradcast.cluster.torchrun import joined, ranks_started
from gradcast.devices import be_deterministic, keep_freed_memory
from gradcast.errors import GradcastError
from gradcast.results.advice import advice
from gradcast.results.quick import mark
from gradcast.results.run_result import RunResult
from gradcast.runs.api import run
from gradcast.runs.checkpoint.keeper import OnNan, Safety, Start
from gradcast.runs.directory import RunDirectory
from gradcast.runs.jsontext import to_json
from gradcast.runs.trackers import tracker
from gradcast.specs import text as specfile
from gradcast.specs.spec import Spec


@dataclass(frozen=True)
class Training:
    """How a specification is trained, or that it is only shown."""

    data: DataOption = None
    out: OutOption = Path("runs")
    device: DeviceOption = "auto"
    threads: ThreadsOption = None
    log: Annotated[
        list[str] | None,
        typer.Option("--log", help="tensorboard or wandb: send the numbers there as well", rich_help_panel=FILES),
    ] = None
    checkpoint_minutes: MinutesOption = 10.0
    checkpoint_steps: StepsOption = None
    resume: ResumeOption = False
    fresh: FreshOption = False
    on_nan: Annotated[
        OnNan,
        typer.Option(
            help="a step whose loss or weights are not finite: end the run, or undo the step and count it",
            rich_help_panel=CHECKPOINTS,
        ),
    ] = "stop"
    deterministic: DeterministicOption = False
    on: OnOption = None
    at_once: AtOnceOption = None
    json: JsonOption = False
    show: Annotated[
        bool, typer.Option("--show", metavar="", help="print the complete specification and train nothing")
    ] = False

    @property
    def safety(self) -> Safety:
        """What is saved when, and where a run begins."""
        if self.resume and self.fresh:
            raise GradcastError("--resume goes on with an unfinished run and --fresh starts it over; leave one out")
        start: Start = "resume" if self.resume else "fresh" if self.fresh else "auto"
        return Safety(self.checkpoint_minutes, self.checkpoint_steps, start, self.on_nan)


def trains(command: Callable[..., Spec]) -> Callable[..., None]:
    """A command that says what to train, with the options of how to beside its own."""
    shared = signature(Training).parameters

    def complete(**given: object) -> None:
        how = Training(**{name: given.pop(name) for name in shared})  # type: ignore[arg-type]  # typer has checked them
        train(command(**given), how)

    complete.__name__, complete.__doc__ = command.__name__, command.__doc__
    own = signature(command)
    parameters = [*own.parameters.values(), *shared.values()]
    complete.__signature__ = own.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    return complete


def train(spec: Spec, how: Training) -> None:
    """Train what is missing, and print the result."""
    if how.show:
        _show(spec, json=how.json)
        return
    safety = how.safety
    if how.deterministic:
        be_deterministic(how.threads)
    if how.at_once and not how.on:
        raise GradcastError("--at-once divides the seeds of a row for --on ray; leave it out, or add --on ray")
    if how.log and how.on:
        raise GradcastError("--log receives numbers of this process alone; leave it out, or leave --on out")
    if how.on and ranks_started() > 1:
        raise GradcastError("--on ray and torchrun both start processes; leave --on out, or start gradcast without it")
    choose_threads(1 if how.deterministic else how.threads, how.device, elsewhere=how.on is not None)
    keep_freed_memory()
    with joined(complain) as ranks:
        trackers = [tracker(name) for name in how.log or [] if ranks is None or ranks.first]
        result = run(
            spec,
            out=how.out,
            data=data_folder(how.data),
            device=how.device,
            progress=True,  # in a file too: a line a minute
            trackers=trackers,
            safety=safety,
            threads=how.threads if how.on else None,
            on=how.on,
            at_once=how.at_once,
            ranks=ranks,
        )
        _print(result, json=how.json)
        for own in trackers:
            typer.echo(own.where(), err=how.json)


def _show(spec: Spec, *, json: bool) -> None:
    """All of it, as the file that would say so."""
    if json:
        raise GradcastError("--show prints the specification as TOML, and --json results; leave one of them out")
    typer.echo(specfile.dump(spec), nl=False)


def _print(result: RunResult, *, json: bool) -> None:
    spec = RunDirectory(result.directory).spec
    if json:
        rows = [row.as_dict() for row in result.rows]
        facts = {"directory": str(result.directory), "quick": bool(mark(spec)), "rows": rows}
        typer.echo(to_json(facts), nl=False)
    else:
        advised = advice(spec, result.rows, result.directory)
        print_results(Console(), result.rows, result.directory, advised, mark(spec))
