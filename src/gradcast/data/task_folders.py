"""A folder of tasks: which of its entries are tasks, and in which order they come."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcast.data.class_folders import split_of
from gradcast.data.own_tasks import check_names
from gradcast.data.scan import hidden
from gradcast.errors import GradcastError, message_of, warn

FILES = (".npz", ".zip")  # files that may be a task
LAYOUT = "TASK/CLASS/*.png, TASK/train/CLASS/*.png beside TASK/test/CLASS/*.png, or TASK.npz"
NAMED = 5  # entries named in a warning


@dataclass(frozen=True)
class TaskPlace:
    """Where a task lies: a folder or a zip archive of class folders, or an .npz file."""

    name: str
    path: Path

    @property
    def npz(self) -> bool:
        """Whether it is an .npz file."""
        return self.path.suffix.lower() == ".npz" and not self.path.is_dir()

    @classmethod
    def of(cls, path: Path) -> "TaskPlace":
        """A task is called as its folder or file."""
        return cls(path.stem if path.suffix.lower() in FILES and not path.is_dir() else path.name, path)


def find_tasks(roots: Sequence[Path], *, listed: bool) -> list[TaskPlace]:
    """The entries of one folder in natural order, or (``listed``) these places as they come."""
    places = [TaskPlace.of(path) for path in (roots if listed else _entries(roots[0]))]
    where = "stream.path" if listed else str(roots[0])
    if places:
        check_names([place.name for place in places], where)
    return places


def natural(name: str) -> list[str | int]:
    """A key to sort names by in which numbers count as numbers: task2 comes before task10."""
    parts = re.split(r"(\d+)", name.casefold())
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]


def _entries(root: Path) -> list[Path]:
    """Folders and files that may be tasks; others are named in a warning."""
    if not root.is_dir():
        raise GradcastError(f"{root} is no folder; set stream.path to a folder of tasks ({LAYOUT}), or to a list")
    try:
        found = [path for path in root.iterdir() if not hidden(path.name)]
    except OSError as error:
        raise GradcastError(f"{root} cannot be read ({message_of(error)}); choose another folder") from None
    found.sort(key=lambda path: (natural(path.name), path.name))
    tasks = [path for path in found if path.is_dir() or path.suffix.lower() in FILES]
    splits = {split_of(path.name): path.name for path in tasks}
    if "train" in splits and len(splits.keys() - {None}) > 1:
        raise GradcastError(
            f"{root} has the folder {splits['train']!r} where its tasks should be; lay it out as {LAYOUT}, or set "
            "stream.source=folder for a single dataset"
        )
    others = [path.name for path in found if path not in tasks]
    if others:
        more = ", ..." if len(others) > NAMED else ""
        warn(f"left out of {root}, being no task: {', '.join(others[:NAMED])}{more}")
    return tasks
