"""What a worker does with a task: trains it, tells how far it is, and sends checkpoints and results."""

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from gradcast.cluster.cell_task import CellTask, Conditions, Files, packed, unpack
from gradcast.cluster.relay import Progress
from gradcast.core import Metrics
from gradcast.devices import keep_freed_memory, use_threads
from gradcast.errors import Diverged, GradcastError, message_of
from gradcast.runs.checkpoint import file as checkpoint
from gradcast.runs.environment import PACKAGE, installed, source_digest
from gradcast.runs.run import run
from gradcast.runs.seed_store import SeedStore, TrainedSeed
from gradcast.training.loop import Extent, Position

TOLD_EVERY = 0.5  # seconds between two words about progress
LOOKED_EVERY = 2.0  # seconds between two looks for a new checkpoint; a cell that is shorter needs none


@runtime_checkable
class Channel(Protocol):
    """The relay as a worker reaches it."""

    def tell(self, task: str, progress: Progress) -> None:
        """Say how far it is."""
        ...

    def save(self, task: str, files: Files) -> None:
        """Send a checkpoint to the command."""
        ...

    def load(self, task: str) -> Files:
        """Ask the command for the newest checkpoint."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What comes back: the store's files of the seeds, or a sentence."""

    files: Files = field(default_factory=dict)
    problem: str = ""


def versions() -> dict[str, str | None]:
    """What must be the same on all machines, for the same results."""
    return {"gradcast": source_digest(PACKAGE), "torch": installed("torch")}


def train_cell(task: CellTask, conditions: Conditions, channel: Channel) -> Outcome:
    """Train a task from its newest checkpoint; what goes wrong is a sentence that names the node."""
    node = socket.gethostname()
    try:
        _check_versions(conditions.versions)
        _move_to(conditions)
        with tempfile.TemporaryDirectory(prefix="gradcast-") as scratch:
            return Outcome(_train(task, conditions, channel, Path(scratch), node))
    except GradcastError as error:
        return Outcome(problem=f"node {node}: {error}")
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        return Outcome(problem=f"node {node}: {what}{error.strerror or message_of(error)}; free some space there")


def _train(task: CellTask, conditions: Conditions, channel: Channel, scratch: Path, node: str) -> Files:
    out, store = scratch / "runs", scratch / "store"
    unpack(channel.load(task.name), out)
    display = WorkerDisplay(lambda progress: channel.tell(task.name, progress), node)
    options: dict[str, Any] = {"source": conditions.source, "pool": conditions.pool, "safety": conditions.safety}
    options |= {"data": conditions.data, "device": conditions.device}
    with _sending(out, lambda files: channel.save(task.name, files)):
        try:
            run(task.spec, out=out, display=display, store=store, report=False, **options)
        except Diverged as error:
            for seed in task.spec.seeds:
                SeedStore(store).keep(task.key, TrainedSeed(seed=seed, origin={}, diverged=str(error)), scratch)
    return packed(store)


@contextmanager
def _sending(out: Path, save: Callable[[Files], None]) -> Iterator[None]:
    """Meanwhile every new checkpoint is sent, with all files of its run."""
    over = threading.Event()

    def watch() -> None:
        sent: set[str] = set()
        while not over.wait(LOOKED_EVERY):
            names = _checkpoints(out)
            if names and names != sent:
                files = _snapshot(out)
                if files and names == _checkpoints(out):  # nothing was moved meanwhile
                    save(files)
                    sent = names

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _checkpoints(out: Path) -> set[str]:
    """Of rows and of head starts; none where a folder goes away while it is read, as one that is being written does."""
    try:
        folders = {path.parent for path in out.rglob("*.safetensors")}
        return {path.as_posix() for folder in folders for path in checkpoint.files(folder)}
    except FileNotFoundError:
        return set()


def _snapshot(out: Path) -> Files:
    """All files; one that goes away meanwhile shows that the moment is not a good one."""
    try:
        return {name: content for name, content in packed(out).items() if not name.endswith((".tmp", ".lock"))}
    except FileNotFoundError:
        return {}


def _check_versions(wanted: dict[str, str | None]) -> None:
    for name, own in versions().items():
        if own != wanted[name]:
            told = (wanted[name] or "none")[:12], (own or "none")[:12]
            raise GradcastError(
                f"its {name} is another than that of the command ({told[1]}, not {told[0]}); "
                f"install the same {name} on every node"
            )


def _move_to(conditions: Conditions) -> None:
    """Be where the command was given, if that folder is there; paths of a specification are relative to it."""
    os.environ.update(conditions.environment)
    if conditions.folder.is_dir():
        os.chdir(conditions.folder)
        if str(conditions.folder) not in sys.path:
            sys.path.insert(0, str(conditions.folder))
    use_threads(conditions.threads)
    keep_freed_memory()


class WorkerDisplay:
    """A display that tells somebody elsewhere."""

    def __init__(self, tell: Callable[[Progress], None], node: str) -> None:
        self.tell, self.node, self.told = tell, node, 0.0

    def track(self, rounds: Iterable[Any], what: str, total: int) -> Iterable[Any]:
        """A long loop before training."""
        for done, entry in enumerate(rounds, 1):
            yield entry
            self.say(done, total, what)

    def row(self, label: str, extent: Extent, groups: int = 1, start: Position | None = None) -> "WorkerRow":
        """A row begins, or a head start."""
        return WorkerRow(self, extent, groups * extent.steps)

    def skipped(self, label: str) -> None:
        """Tell nothing of a row that needs no run."""

    def note(self, sentence: str) -> None:
        """The command has said so itself."""

    def say(self, done: int, total: int, note: str, *, now: bool = False) -> None:
        """Send progress to the command, at most once in ``TOLD_EVERY`` seconds."""
        moment = time.monotonic()
        if now or moment - self.told >= TOLD_EVERY:
            self.told = moment
            self.tell(Progress(done, total, note, self.node))


class WorkerRow:
    """Hears of the steps of a row."""

    def __init__(self, display: WorkerDisplay, extent: Extent, total: int) -> None:
        self.display, self.extent, self.total = display, extent, total
        self.before, self.done, self.note = 0, 0, ""

    def begin(self, group: int, position: Position, seeds: Sequence[int] = ()) -> None:
        """A group of seeds begins, or goes on from there."""
        self.before, self.done = group * self.extent.steps, position.batches
        self._say(position.task)

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """Count a step, and send progress."""
        self.done += 1
        self._say(task)

    def trained(self, task: int) -> None:
        """A task is over."""
        self.done = 0
        self._say(task + 1)

    def evaluated(self, tasks_done: int, accuracy: Tensor, unknown: Tensor | None = None) -> None:
        """The mean accuracy over the tasks so far."""
        if tasks_done:
            self.note = f"{100 * float(accuracy[:, :tasks_done].mean()):.1f} %"

    def _say(self, task: int) -> None:
        self.display.say(self.before + self.extent.before(task) + self.done, self.total, self.note)
