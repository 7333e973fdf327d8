"""``gradcast.run``: a run started from Python, with progress on the screen and its result as an object."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from torch import Tensor

from gradcast.cluster.ranks import Ranks
from gradcast.data.images import Source
from gradcast.data.own_tasks import OwnTasks
from gradcast.devices import use_threads
from gradcast.errors import GradcastError
from gradcast.results.run_result import RunResult
from gradcast.runs import run as runs
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.prepared import Display
from gradcast.runs.trackers import Tracker
from gradcast.specs.spec import Spec


def run(
    spec: Spec,
    *,
    out: Path | str = "runs",
    data: Path | str | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: bool | None = None,
    source: Source | OwnTasks | None = None,
    pool: np.ndarray | Tensor | None = None,
    trackers: Sequence[Tracker] = (),
    safety: Safety | None = None,
    on: str | None = None,
    at_once: int | None = None,
    ranks: Ranks | None = None,
) -> RunResult:
    """Train every row of a specification that is not finished yet, and return the results of all.

    Everything is written to a directory below ``out``: specification, metrics, weights, report and figures. The same
    specification on the same data is never trained twice. A run that was stopped goes on from its newest checkpoint.
    SIGINT and SIGTERM end a run after a step and a checkpoint.

    Args:
        spec: what to train, as ``gradcast.load`` or ``gradcast.parse`` gives it.
        out: folder in which the run directory is made.
        data: folder of datasets; None takes $GRADCAST_DATA, or else ./data.
        device: "cpu", "cuda", "cuda:1" and so on; "auto" takes a GPU where there is one.
        threads: CPU threads for torch, for the whole process; None leaves torch's setting as it is.
        progress: whether to show progress bars on standard error; None shows them in terminals and notebooks.
        source: labelled images in place of the named ones, as ``gradcast.own_data`` and ``from_datasets`` give them,
            or tasks in place of the scenario, as ``gradcast.own_tasks`` gives them.
        pool: unlabelled images in place of the named ones: bytes or numbers from 0 to 1, N x H x W, N x H x W x C or
            N x C x H x W; or feature vectors, N x D.
        trackers: objects that receive every number as well, such as ``gradcast.runs.trackers.tracker("tensorboard")``.
        safety: when checkpoints are written, whether to resume, and what happens to steps that are not finite.
        on: "ray" trains each row by a process of its own, "ray://HOST:PORT" on a cluster; None in this process.
        at_once: with ``on``, how many seeds of a row are one task, at most; None for all of them.
        ranks: the processes that train together, as ``gradcast.cluster.torchrun.joined`` gives them.
    """
    set_threads(threads)
    if on is not None and trackers:
        raise GradcastError("trackers receive numbers of this process alone; leave them out, or leave on=... out")
    with progress_display(progress) as display:
        elsewhere = None
        if on is not None:
            from gradcast.cluster.cell_task import Cluster
            from gradcast.cluster.train_ahead import train_ahead  # here: importing gradcast stays fast

            elsewhere = train_ahead(
                [spec],
                Cluster(on, threads, at_once),
                out=Path(out),
                data=data,
                device=device,
                safety=safety,
                source=source,
                pool=pool,
                display=display,
            )
        directory, rows = runs.run(
            spec,
            out=out,
            data=data,
            device=device,
            source=source,
            pool=pool,
            display=display if on is None else None,  # cells were shown as they were trained
            trackers=trackers,
            safety=safety,
            elsewhere=elsewhere,
            ranks=ranks,
        )
    return RunResult(directory.path, rows)


def set_threads(threads: int | None) -> None:
    """CPU threads for torch, where a caller asks for a number."""
    if threads is None:
        return
    if threads < 1:
        raise GradcastError(f"threads = {threads} is not valid; give 1 or more, or None to leave torch's setting")
    use_threads(threads)


@contextmanager
def progress_display(progress: bool | None) -> Iterator[Display | None]:
    """Progress bars, where somebody sees them."""
    from rich.console import Console  # here, not above: importing gradcast stays fast

    from gradcast.cli.console import ProgressDisplay

    console = Console(stderr=True)
    if progress or (progress is None and (console.is_terminal or console.is_jupyter)):
        with ProgressDisplay(console) as display:
            yield display
    else:
        yield None
