"""Tables that come with the package: what was measured, by whom, when and on which device; nothing is trained.

Rows are known by what was trained. A table or figure without a file of its own has the rows of the one table whose
file has most of them, as figures 8 to 12 have those of tables 5 and 10: rows of one table were trained alike.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path

from gradcast.reproduce.cells import Cell
from gradcast.reproduce.experiment import Experiment, Item, load
from gradcast.reproduce.render import NOWHERE, Saved, read_saved
from gradcast.reproduce.reproduce import Request, outcome
from gradcast.reproduce.rows import not_drawn
from gradcast.reproduce.trained import Trained, joined_origins


def folder() -> Path:
    """The folder of the measured tables."""
    return Path(str(files("gradcast.reproduce").joinpath("measured")))


@cache
def measured(name: str) -> Saved | None:
    """A table or figure by its ID; None where nothing of it was measured."""
    file = folder() / f"{name.upper()}.json"
    return _read(file) if file.is_file() else _of_another(load(name))


def courses(name: str) -> list[Saved]:
    """All that was measured of a table: first as it is, then in courses of other lengths, such as E6-15200."""
    own = measured(name)
    others = [file for file in sorted(folder().glob(f"{name.upper()}-*.json")) if file.stem.split("-")[1].isdigit()]
    return [*([] if own is None else [own]), *map(_read, others)]


def measured_rows(name: str) -> list[Item]:
    """Its rows that have a number, in a course of any length, and can be drawn in a figure of every task."""
    found = dict[str, Item]()
    for own in courses(name):
        lacking = {line.item.name for line in not_drawn(own.wanted.experiment, own.lines)}
        rows = [line.item for line in own.lines if line.ours and line.item.name not in lacking]
        found = {row.name: row for row in rows} | found
    return list(found.values())


def _of_another(experiment: Experiment) -> Saved | None:
    """The table whose file has most of its rows; costs belong to one table alone."""
    files = [] if experiment.header.alone else sorted(folder().glob("*.json"))
    others = [saved for file in files if (saved := _read(file)).wanted.comparable]
    taken = [(saved, rows) for saved in others if (rows := _rows(experiment, saved))]
    if not taken:
        return None
    saved, known = max(taken, key=lambda own: _worth(own[1]))
    wanted = Request(experiment, saved.wanted.seeds, saved.wanted.dtype, NOWHERE, known=known)
    return Saved(wanted, outcome(wanted, {}), joined_origins(own.origin for own in known.values()), [])


def _rows(experiment: Experiment, saved: Saved) -> dict[str, Trained]:
    """Rows of the experiment that were trained for another table."""
    cells = {line.trained.cell: line.trained for line in saved.lines if line.trained is not None}
    dtype, settings = saved.wanted.dtype, {item.name: item.setting for item in experiment.items if item.setting}
    names = {name: Cell(setting, dtype).name for name, setting in settings.items()}
    return {name: cells[cell] for name, cell in names.items() if cell in cells}


def _worth(known: dict[str, Trained]) -> tuple[int, int, int]:
    """Rows, those of them that figures can draw, and seeds."""
    rows = known.values()
    return len(rows), sum(bool(own.task_numbers) for own in rows), sum(len(own.seeds) for own in rows)


_read = cache(read_saved)  # several figures take rows of one table
