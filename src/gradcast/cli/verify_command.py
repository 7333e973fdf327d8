"""``gradcast verify``: replay the reference trajectories."""

from pathlib import Path
from typing import Annotated

import typer

from gradcast.cli.console import complain
from gradcast.cli.options import DeviceOption
from gradcast.devices import use_threads
from gradcast.errors import BAD_INPUT, GradcastError
from gradcast.verify.replay import replay


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
            complain(str(error))
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
