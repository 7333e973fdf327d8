"""An unfinished row: which seeds train together, which of them are done, and how long that took (ROW/groups.json)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeFloat, NonNegativeInt

from gradcast.errors import GradcastError, message_of, warn
from gradcast.runs.checkpoint import file
from gradcast.runs.directory import GROUPS, RunDirectory
from gradcast.runs.jsontext import parse_json
from gradcast.runs.manifest import Entries, Share, check_entries, describe, seed_files
from gradcast.runs.sealed import DIGEST, Schema, unsealed, write_sealed
from gradcast.runs.stopwatch import Stopwatch


class Attempt(Schema):
    """What does not belong to one group of seeds."""

    groups: list[Annotated[list[NonNegativeInt], Field(min_length=1)]]
    started: str
    done: NonNegativeInt = 0  # groups that are trained, the first of them
    seconds: NonNegativeFloat = 0.0  # taken by these
    task_seconds: list[NonNegativeFloat] = Field(default_factory=list)  # of training, the same
    evaluation_seconds: NonNegativeFloat = 0.0  # of evaluations after tasks
    warm_up_seconds: NonNegativeFloat = 0.0  # of training, those of first steps
    undone: dict[NonNegativeInt, Share] = Field(default_factory=dict)  # share of steps, by seed of theirs
    files: Entries = Field(default_factory=dict)  # of their seeds

    @classmethod
    def begin(cls, directory: RunDirectory, row: str, groups: list[list[int]]) -> "Attempt":
        """Empty directories, and the groups written down."""
        made = cls(groups=groups, started=datetime.now(UTC).isoformat(timespec="seconds"))
        directory.start(row, [seed for group in groups for seed in group])
        made._write(directory.path / row)
        return made

    @classmethod
    def earlier(cls, directory: RunDirectory, row: str, seeds: Sequence[int]) -> "Attempt | None":
        """What an interrupted run left, where that is worth going on from."""
        path = directory.path / row / GROUPS
        if not path.is_file():
            return None
        try:
            said = parse_json(path.read_text(encoding="utf-8"))
            if isinstance(said, dict) and DIGEST not in said:
                raise GradcastError(
                    f"{path} was written by another version of gradcast; go on with that, or start over with --fresh"
                )
            found = unsealed(said, cls)
            if found.seeds != list(seeds) or found.done > len(found.groups):
                raise ValueError("it is of other seeds")
        except (OSError, ValueError) as error:
            warn(f"{path} cannot be used ({message_of(error)}): the row starts over")
            return None
        return found if found.done or file.files(path.parent) else None

    @classmethod
    def without(cls, directory: RunDirectory, row: str, seeds: Sequence[int], lost: Sequence[int]) -> None:
        """What is left when some of the seeds are: groups that are done stay, checkpoints with the lost seeds go."""
        folder, found = directory.path / row, cls.earlier(directory, row, seeds)
        file.remove(folder)
        if found is None:
            (folder / GROUPS).unlink(missing_ok=True)
            return
        left = [[seed for seed in group if seed not in lost] for group in found.groups]
        found.groups = [group for group in left if group]
        found._write(folder)

    @property
    def seeds(self) -> list[int]:
        """All of them, group by group."""
        return [seed for group in self.groups for seed in group]

    @property
    def left(self) -> list[list[int]]:
        """Groups that are not done."""
        return self.groups[self.done :]

    def check(self, folder: Path) -> None:
        """A sentence where a file of a group that is done is not as it was then."""
        check_entries(folder, self.files)

    def watch(self) -> Stopwatch:
        """A stopwatch that shows what the groups done so far took."""
        made = Stopwatch()
        made.tasks, made.warm_up = dict(enumerate(self.task_seconds)), self.warm_up_seconds
        made.taken, made.evaluations = (self.seconds, 0.0), self.evaluation_seconds
        return made

    def group_done(self, folder: Path, watch: Stopwatch, undone: Mapping[int, float]) -> None:
        """Its weights are written: its checkpoints are of no use any more."""
        self.files = {**self.files, **describe(folder, seed_files(self.left[0]))}
        self.undone = {**self.undone, **undone}
        self.done += 1
        self.seconds, self.task_seconds = watch.taken[0], list(watch.tasks.values())
        self.warm_up_seconds, self.evaluation_seconds = watch.warm_up, watch.evaluations
        self._write(folder)
        file.remove(folder)

    def _write(self, folder: Path) -> None:
        write_sealed(folder / GROUPS, self)


def tidy(folder: Path) -> None:
    """Remove what a finished row needs no more, and what a killed process may have left of it."""
    file.remove(folder)
    (folder / GROUPS).unlink(missing_ok=True)
