"""An unfinished row: which seeds train together and how long that has taken (ROW/groups.json)."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from gradcast.errors import message_of
from gradcast.runs.checkpoint import file
from gradcast.runs.directory import RunDirectory, to_json, write_text
from gradcast.runs.stopwatch import Stopwatch

NAME = "groups.json"


@dataclass
class Attempt:
    """What does not belong to one group of seeds."""

    groups: list[list[int]]
    started: str
    seconds: float = 0.0  # taken by the groups that are done
    task_seconds: list[float] | None = None  # of training, the same
    warm_up_seconds: float = 0.0  # of these, those of first steps

    @classmethod
    def begin(cls, directory: RunDirectory, row: str, groups: list[list[int]]) -> "Attempt":
        """Empty directories, and the groups written down."""
        made = cls(groups, datetime.now(UTC).isoformat(timespec="seconds"))
        directory.start(row, [seed for group in groups for seed in group])
        made._write(directory.path / row)
        return made

    @classmethod
    def earlier(cls, directory: RunDirectory, row: str, seeds: Sequence[int]) -> "Attempt | None":
        """What an interrupted run left, where that is worth going on from."""
        path = directory.path / row / NAME
        if not path.is_file():
            return None
        try:
            found = cls(**json.loads(path.read_text(encoding="utf-8")))
            if [seed for group in found.groups for seed in group] != list(seeds):
                raise ValueError("other seeds")
        except (OSError, ValueError, TypeError) as error:
            warnings.warn(f"{path} is damaged ({message_of(error)}): the row starts over", stacklevel=2)
            return None
        begun = file.files(path.parent) or any(directory.trained(row, group) for group in found.groups)
        return found if begun else None

    @classmethod
    def without(cls, directory: RunDirectory, row: str, seeds: Sequence[int], lost: Sequence[int]) -> None:
        """What is left when some of the seeds are: groups that are done stay, checkpoints with the lost seeds go."""
        folder, found = directory.path / row, cls.earlier(directory, row, seeds)
        file.remove(folder)
        if found is None:
            (folder / NAME).unlink(missing_ok=True)
            return
        left = [[seed for seed in group if seed not in lost] for group in found.groups]
        found.groups = [group for group in left if group]
        found._write(folder)

    def watch(self) -> Stopwatch:
        """A stopwatch that shows what the groups done so far took."""
        made = Stopwatch()
        made.tasks, made.warm_up = dict(enumerate(self.task_seconds or [])), self.warm_up_seconds
        made.taken = (self.seconds, 0.0)
        return made

    def group_done(self, folder: Path, watch: Stopwatch) -> None:
        """Its weights are written: its checkpoints are of no use any more."""
        self.seconds, self.task_seconds = watch.taken[0], list(watch.tasks.values())
        self.warm_up_seconds = watch.warm_up
        self._write(folder)
        file.remove(folder)

    def finish(self, folder: Path) -> None:
        """The row is finished."""
        (folder / NAME).unlink(missing_ok=True)

    def _write(self, folder: Path) -> None:
        write_text(folder / NAME, to_json(asdict(self)))
