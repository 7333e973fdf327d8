"""Options that several commands share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gradcast.data.load import default_data
from gradcast.errors import GradcastError

# Parts of --help, for commands with many options; what has no panel comes first.
FILES, MACHINE, CHECKPOINTS = "Files", "Machine", "Checkpoints"

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="folder of datasets (default: $GRADCAST_DATA or ./data)", rich_help_panel=FILES),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 ...", rich_help_panel=MACHINE)]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=1024, help="CPU threads (default: all cores, or one where they are busy)", rich_help_panel=MACHINE
    ),
]
OutOption = Annotated[Path, typer.Option(help="folder for run directories", rich_help_panel=FILES)]
JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="print the result as JSON on standard output")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="change one setting, e.g. stream.tasks=5; repeatable"),
]
OnOption = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ray[://HOST:PORT]",
        help="train rows side by side: by Ray here, or on a cluster",
        rich_help_panel=MACHINE,
    ),
]
AtOnceOption = Annotated[
    int | None,
    typer.Option(
        "--at-once",
        min=1,
        help="with --on: seeds of a row in one task, at most (default: all)",
        rich_help_panel=MACHINE,
    ),
]
SeedsOption = Annotated[int | None, typer.Option("--seeds", min=1, help="train seeds 0 to N-1, together")]
RowsOption = Annotated[
    str | None,
    typer.Option(
        "--rows",
        help="only these rows, in the specification's order; the first of them is the base: names, separated by commas",
    ),
]


MinutesOption = Annotated[
    float,
    typer.Option(
        "--checkpoint-minutes",
        min=0,
        help="minutes between checkpoints; 0: only at the end of every task",
        rich_help_panel=CHECKPOINTS,
    ),
]
StepsOption = Annotated[
    int | None,
    typer.Option("--checkpoint-steps", min=1, help="steps between checkpoints", rich_help_panel=CHECKPOINTS),
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume", metavar="", help="go on with an unfinished run, or fail", rich_help_panel=CHECKPOINTS),
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", metavar="", help="start unfinished rows over", rich_help_panel=CHECKPOINTS)
]
DeterministicOption = Annotated[
    bool,
    typer.Option(
        "--deterministic", metavar="", help="the same bits every time, at one thread's speed", rich_help_panel=MACHINE
    ),
]


def data_folder(given: Path | None) -> Path:
    """--data, else $GRADCAST_DATA, else ./data."""
    return given or default_data()


def row_names(rows: str | None) -> list[str]:
    """Those of --rows; none for all of them."""
    names = [] if rows is None else [name.strip() for name in rows.split(",") if name.strip()]
    if rows is not None and not names:
        raise GradcastError("--rows names no row; leave it out for all of them")
    return names


def with_seeds(settings: Sequence[str], seeds: int | None) -> list[str]:
    """The settings, and the seeds of --seeds among them; they may not be said twice."""
    twice = [setting for setting in settings if setting.partition("=")[0].strip() == "seeds"]
    if seeds is None:
        return list(settings)
    if twice:
        raise GradcastError(f"--seeds {seeds} and --set {twice[0]} contradict each other; leave one of them out")
    return [*settings, f"seeds={list(range(seeds))}"]
