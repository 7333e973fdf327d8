"""The command line."""

import errno
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import gradcast
from gradcast import datacli, specfile
from gradcast.advice import advice
from gradcast.console import ProgressDisplay, print_results
from gradcast.datacli import DataOption, data_folder
from gradcast.environment import keep_freed_memory, use_threads
from gradcast.errors import GradcastError
from gradcast.result import RowResult
from gradcast.run import run as run_spec
from gradcast.store import RunDirectory, to_json
from gradcast.verify import replay

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Semi-supervised continual learning with predicted gradients, told apart from noise by paired seeds.",
)
app.add_typer(datacli.app, name="data")
BAD_INPUT = 2
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 ...")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads (default: all cores)")]


@app.command()
def run(
    what: Annotated[
        str, typer.Argument(metavar="PRESET|SPEC.toml", help="a preset (see [bold]gradcast presets[/]) or a file")
    ] = "digits",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="change one setting, e.g. stream.tasks=5; repeatable"),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="train seeds 0 to N-1, together")] = None,
    data: DataOption = None,
    out: Annotated[Path, typer.Option(help="folder for run directories")] = Path("runs"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    json: Annotated[bool, typer.Option("--json", help="print the result as JSON on standard output")] = False,
    show: Annotated[bool, typer.Option("--show", help="print the complete specification and train nothing")] = False,
) -> None:
    """Train every row of a specification over paired seeds and say whether unlabelled data helped.

    A finished row is never trained again: the same command prints its stored result.
    """
    chosen = settings or []
    spec = specfile.load(what, [*chosen, f"seeds={list(range(seeds))}"] if seeds else chosen)
    if show:
        typer.echo(specfile.dump(spec), nl=False)
        return
    use_threads(threads)
    keep_freed_memory()
    errors = Console(stderr=True)
    with ProgressDisplay(errors) as display:
        directory, results = run_spec(spec, out=out, data=data_folder(data), device=device, display=display)
    _print(directory, results, json=json)


@app.command()
def presets() -> None:
    """List the presets that [bold]gradcast run[/] knows."""
    table = Table.grid(padding=(0, 2))
    for name, title in specfile.presets().items():
        table.add_row(f"[bold]{name}", title)
    Console().print(table)


@app.command()
def verify(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE.npz...", help="trajectories of the reference implementation")
    ],
    device: DeviceOption = "cpu",
) -> None:
    """Replay golden trajectories in float64 and print the largest relative difference of any weight after any step.

    Exit code 1 when a trace differs by more than its tolerance (1e-9; 1e-6 with BatchNorm).
    """
    use_threads(None)
    code = 0
    for trace in traces:
        try:
            found = replay(trace, device)
        except GradcastError as error:
            _complain(str(error))
            code = BAD_INPUT
            continue
        code = max(code, 0 if found.agrees else 1)
        state = "agrees" if found.agrees else f"DIFFERS (tolerance {found.tolerance:.0e})"
        typer.echo(
            f"{trace.name}: {found.steps} steps, largest relative difference {found.difference:.1e} "
            f"({found.where}): {state}"
        )
    if code:
        raise typer.Exit(code)


@app.command()
def bench(
    device: DeviceOption = "auto",
    data: DataOption = None,
    steps: Annotated[int, typer.Option(min=1, max=150, help="timed steps of each kind")] = 20,
    replicas: Annotated[str, typer.Option(help="how many streams at once, in turn")] = "1,4,16,64",
    threads: ThreadsOption = None,
    json: Annotated[bool, typer.Option("--json", help="print the result as JSON on standard output")] = False,
) -> None:
    """Time our step against the classical formulation of GEM, and count complete streams a minute.

    Both take turns in the same process. On a GPU the slim ResNet-18 is timed too, and whole streams are trained; on
    a CPU a few steps of each task stand for all of them.
    """
    from gradcast.bench import measure  # a quarter of a second that no other command needs

    use_threads(threads)
    keep_freed_memory()
    counts = _counts(replicas)
    errors = Console(stderr=True)
    with errors.status("") as status:
        found = measure.bench(
            device, data_folder(data), steps=steps, replicas=counts, say=lambda what: status.update(f"[dim]{what}")
        )
    if json:
        typer.echo(to_json(found.as_dict()), nl=False)
    else:
        measure.print_bench(Console(), found)


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise GradcastError(f"--replicas {text!r} is not a list of whole numbers, as in --replicas 1,4,16")
    return counts


def _version(asked: bool) -> bool:
    if asked:
        typer.echo(f"gradcast {gradcast.__version__}")
        raise typer.Exit()
    return asked


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Options of all commands."""


def _print(directory: RunDirectory, results: list[RowResult], *, json: bool) -> None:
    if json:
        typer.echo(
            to_json({"directory": str(directory.path), "rows": [result.as_dict() for result in results]}), nl=False
        )
    else:
        print_results(Console(), results, directory.path, advice(directory.spec, results))


def main() -> None:
    """Entry point: a mistake becomes one sentence and exit code 2."""
    try:
        app()
    except GradcastError as error:
        _complain(str(error))
        sys.exit(BAD_INPUT)
    except OSError as error:
        unwritable = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENOTDIR)
        remedy = "; free some space or choose another place with --out" if unwritable else ""
        _complain(f"{error.filename or 'a file'}: {error.strerror or error}{remedy}")
        sys.exit(BAD_INPUT)


def _complain(sentence: str) -> None:
    Console(stderr=True, highlight=False, markup=False).print(f"error: {sentence}", soft_wrap=True, style="red")
