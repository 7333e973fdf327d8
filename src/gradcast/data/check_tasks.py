"""What is in a folder of tasks: which classes each has, which are new, which return, and what cannot be read."""

from functools import partial
from pathlib import Path

from gradcast.data.catalogue import Dataset
from gradcast.data.check import Findings, check
from gradcast.data.class_counts import TaskCounts, tasks_in_words
from gradcast.data.class_folders import class_folders
from gradcast.data.load import Shelf
from gradcast.data.own_images import read_npz
from gradcast.data.task_folders import TaskPlace, find_tasks
from gradcast.errors import GradcastError


def check_tasks(root: Path, shelf: Shelf) -> Findings:
    """Read every image of every task."""
    places, counted = find_tasks([root], listed=False), list[TaskCounts]()
    found = Findings(facts=[f"found at {root}"])
    if len(places) < 2:
        found.problems.append(
            f"{len(places)} task{'' if len(places) == 1 else 's'}, and a stream of tasks needs two or more"
        )
    for place in places:
        try:
            counted.append(_counts(place))
        except GradcastError as error:
            found.problems.append(f"task {place.name!r}: {error}")
            continue
        if not place.npz:
            _look(place, shelf, found)
    classes = {label for task in counted for label in task.classes}
    found.facts += [f"{len(counted):,} tasks, {len(classes):,} classes", *tasks_in_words(counted)]
    return found


def _counts(place: TaskPlace) -> TaskCounts:
    if place.npz:
        source = read_npz(place.path)
        return TaskCounts(place.name, source.classes, len(source.train), len(source.test))
    files = class_folders(place.path, fewest=1)
    return TaskCounts(place.name, files.classes, len(files.train), len(files.test))


def _look(place: TaskPlace, shelf: Shelf, found: Findings) -> None:
    """Unreadable images of a task, and what is left out of it."""
    folder = Dataset("folder", "", "", "", "", lambda _: [place.path], files=partial(class_folders, fewest=1))
    own = check(folder, shelf)
    for told, sentences in (
        (found.notes, own.notes),
        (found.unreadable, own.unreadable),
        (found.problems, own.problems),
    ):
        told += [f"task {place.name!r}: {sentence}" for sentence in sentences]
