"""``gradcast bench``: time steps, streams and head starts."""

from collections.abc import Collection
from typing import Annotated

import typer
from rich.console import Console

from gradcast.cli.options import DataOption, DeviceOption, JsonOption, ThreadsOption, data_folder
from gradcast.cli.threads import choose_threads
from gradcast.devices import keep_freed_memory
from gradcast.errors import BAD_INPUT, GradcastError, one_line
from gradcast.runs.jsontext import to_json

ON_REQUEST = ("whole-stream", "ray")  # take minutes; ray needs an extra, and all cores


def bench(
    device: DeviceOption = "auto",
    data: DataOption = None,
    steps: Annotated[int, typer.Option(min=1, max=150, help="timed steps of each kind")] = 20,
    replicas: Annotated[str, typer.Option(help="how many streams at once, in turn")] = "1,4,16,64",
    only: Annotated[
        str | None,
        typer.Option(
            help="some parts: steps, growth, streams, checkpoints, epochs, few-labels, head-start, methods; "
            "on request whole-stream, ray"
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="instead: print what was measured on other machines; nothing is timed")
    ] = False,
    soak: Annotated[
        float | None, typer.Option(min=0.01, help="instead: short runs for so many minutes; does anything pile up?")
    ] = None,
    faults: Annotated[
        bool,
        typer.Option(
            "--faults", metavar="", help="instead: kill small runs at every file operation; does any end otherwise?"
        ),
    ] = False,
    threads: ThreadsOption = None,
    json: JsonOption = False,
) -> None:
    """Time our step against the classical formulation of GEM, streams, ACL, few labels, head starts and all learners.

    Both formulations take turns in the same process. On a GPU the slim ResNet-18 is timed too, and whole streams and
    epochs are trained; on a CPU a few steps stand for all of them. Images a second are those of meta-gradient.
    """
    from gradcast.bench import measure  # a quarter of a second that no other command needs
    from gradcast.bench.print_bench import print_bench

    if show:
        _show(json=json)
        return
    choose_threads(threads, device)
    keep_freed_memory()
    counts = _counts(replicas)
    parts = _named(only, measure.PARTS)
    errors = Console(stderr=True)
    if soak is not None:
        _soak(errors, soak, json=json)
        return
    if faults:
        _faults(errors, json=json)
        return
    with errors.status("") as status:
        folder, say = data_folder(data), lambda what: status.update(f"[dim]{what}")
        found = measure.bench(measure.Request(device, folder, steps, counts, say), parts)
    if json:
        typer.echo(to_json(found.as_dict()), nl=False)
    else:
        print_bench(Console(), found)


def _show(*, json: bool) -> None:
    """The results that come with the package, machine by machine."""
    from gradcast.bench.bench_result import measured
    from gradcast.bench.print_bench import print_bench

    if json:
        typer.echo(to_json({name: own.as_dict() for name, own in measured().items()}), nl=False)
        return
    for own in measured().values():
        print_bench(Console(), own)


def _soak(errors: Console, minutes: float, *, json: bool) -> None:
    from gradcast.bench.soak import soak

    with errors.status("") as status:
        found = soak(minutes, lambda what: status.update(f"[dim]{what}"))
    if json:
        typer.echo(to_json(found.as_dict()), nl=False)
        return
    typer.echo(f"{found.runs} runs in {found.samples[-1].seconds / 60:.1f} minutes")
    for name, words in (("resident_mb", "MB resident"), ("open_files", "open files"), ("threads", "threads")):
        early, late = found.growth(name)
        typer.echo(f"{words}: {early:.0f} after the warm-up, {late:.0f} at the end")


def _faults(errors: Console, *, json: bool) -> None:
    """Every fault at every place, an hour or more; the exit code is 2 where a run did not end as it should."""
    from gradcast.bench.fault_kinds import all_faults

    with errors.status("") as status:
        found = all_faults(lambda what: status.update(f"[dim]{what}"))
    wrong = [trial for trial in found if trial.problem]
    if json:
        typer.echo(to_json({"trials": len(found), "wrong": [vars(trial) for trial in wrong]}), nl=False)
    else:
        for trial in wrong:
            typer.echo(f"{trial.kind}, {trial.fault} at operation {trial.place}: {one_line(trial.problem)}")
        typer.echo(f"{len(found)} faults, {len(wrong)} of which left something else than an undisturbed run")
    if wrong:
        raise typer.Exit(BAD_INPUT)


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise GradcastError(f"--replicas {text!r} is not a list of whole numbers, as in --replicas 1,4,16")
    return counts


def _named(only: str | None, known: Collection[str]) -> Collection[str]:
    parts = [name for name in known if name not in ON_REQUEST] if only is None else only.split(",")
    if not set(parts) <= set(known):
        raise GradcastError(f"--only {only!r} names what is not measured; there are {', '.join(known)}")
    return parts
