"""What stands between workers and the command that waits for them: how far each is, and its newest checkpoint.

An instance lives in a process of its own on the machine of the command, as an actor of Ray. Checkpoints lie on that
machine's disk, so that they outlast workers, nodes and the command itself.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gradcast.cluster.cell_task import Files, packed, unpack

BUILDING = ".building-"


@dataclass(frozen=True)
class Progress:
    """How far a task is."""

    done: int = 0
    total: int = 0
    note: str = ""
    node: str = ""


class Relay:
    """All tasks of one command; ``folder`` is where their checkpoints are."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.known: dict[str, Progress] = {}
        for left in self.folder.glob(f"{BUILDING}*"):
            shutil.rmtree(left, ignore_errors=True)

    def tell(self, task: str, progress: Progress) -> None:
        """A worker says how far it is."""
        self.known[task] = progress

    def progress(self) -> dict[str, Progress]:
        """Of all tasks that have begun."""
        return dict(self.known)

    def save(self, task: str, files: Files) -> None:
        """A worker's run directory with a new checkpoint: it takes the place of the one before, as a whole."""
        self.folder.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=BUILDING, dir=self.folder))
        unpack(files, beside)
        place, old = self.folder / task, Path(tempfile.mkdtemp(prefix=BUILDING, dir=self.folder))
        if place.exists():
            os.replace(place, old)
        beside.rename(place)
        shutil.rmtree(old, ignore_errors=True)

    def load(self, task: str) -> Files:
        """What was saved of a task; nothing where it begins."""
        place = self.folder / task
        return packed(place) if place.is_dir() else {}
