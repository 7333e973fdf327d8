"""Tables that come with the package: what was measured, by whom, when and on which device; nothing is trained.

Rows are known by what was trained: a table or figure without a file of its own has the rows that other tables' files
have, as figures 8 to 12 have those of tables 5 and 10.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from gradcast.devices import Arithmetic
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.experiment import Experiment, load
from gradcast.reproduce.render import NOWHERE, Saved, read_saved
from gradcast.reproduce.reproduce import Request, outcome
from gradcast.reproduce.trained import Trained


class Key(NamedTuple):
    """What was trained, and in which arithmetic."""

    cell: str
    dtype: Arithmetic


def folder() -> Path:
    """Where they lie."""
    return Path(str(files("gradcast.reproduce").joinpath("measured")))


@cache
def measured(name: str) -> Saved | None:
    """A table or figure by its ID; None where nothing of it was measured."""
    file = folder() / f"{name.upper()}.json"
    return _read(file) if file.is_file() else _from_others(load(name))


def measured_rows(name: str) -> int:
    """How many of its rows have a number."""
    found = measured(name)
    return 0 if found is None else sum(bool(line.ours) for line in found.lines)


def _from_others(experiment: Experiment) -> Saved | None:
    """Rows that other tables have, of the arithmetic that most of them have; costs belong to one table alone."""
    if experiment.header.alone:
        return None
    found: dict[Arithmetic, dict[str, Trained]] = {}
    for (cell, dtype), own in _cells().items():
        for item in experiment.items:
            if item.setting is not None and Cell(item.setting, dtype).name == cell:
                found.setdefault(dtype, {})[item.name] = own
    if not found:
        return None
    dtype, known = max(found.items(), key=lambda each: len(each[1]))
    seeds = sorted({seed for own in known.values() for seed in own.seeds})
    wanted = Request(experiment, seeds, dtype, NOWHERE, known=known)
    return Saved(wanted, outcome(wanted, {}), "; ".join(dict.fromkeys(own.origin for own in known.values())), [])


_read = cache(read_saved)


@cache
def _cells() -> Mapping[Key, Trained]:
    """All that was measured. Several tables may have a row: that which figures can draw counts, else the most seeds."""
    best: dict[Key, Trained] = {}
    for file in sorted(folder().glob("*.json")):
        saved = _read(file)
        for own in (line.trained for line in saved.lines if saved.wanted.comparable and line.trained is not None):
            key = Key(own.cell, saved.wanted.dtype)
            best[key] = max(best.get(key, own), own, key=lambda each: (len(each.task_numbers), len(each.seeds)))
    return best
