"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from gradcast.checkpoint.keeper import OnNan
from gradcast.data.load import default_data

DataOption = Annotated[
    Path | None, typer.Option("--data", help="folder of datasets (default: $GRADCAST_DATA or ./data)")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 ...")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads (default: all cores)")]
OutOption = Annotated[Path, typer.Option(help="folder for run directories")]
JsonOption = Annotated[bool, typer.Option("--json", help="print the result as JSON on standard output")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="change one setting, e.g. stream.tasks=5; repeatable"),
]
SeedsOption = Annotated[int | None, typer.Option("--seeds", min=1, help="train seeds 0 to N-1, together")]
LogOption = Annotated[
    list[str] | None, typer.Option("--log", help="tensorboard or wandb: send the numbers there as well")
]
CheckpointMinutesOption = Annotated[
    float, typer.Option(min=0, help="minutes between checkpoints; 0: only at the end of every task")
]
CheckpointStepsOption = Annotated[int | None, typer.Option(min=1, help="steps between checkpoints")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="go on with an unfinished run, or fail")]
FreshOption = Annotated[bool, typer.Option("--fresh", help="start unfinished rows over")]
OnNanOption = Annotated[
    OnNan, typer.Option(help="a step whose loss or weights are not finite: end the run, or undo the step, count it")
]
DeterministicOption = Annotated[
    bool, typer.Option("--deterministic", help="the same bits every time, at one thread's speed")
]
ShowOption = Annotated[bool, typer.Option("--show", help="print the complete specification and train nothing")]


def data_folder(given: Path | None) -> Path:
    """--data, else $GRADCAST_DATA, else ./data."""
    return given or default_data()
