"""Tables that come with the package: what was measured, by whom, when and on which device; nothing is trained."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from gradcast.reproduce.render import Saved, read_saved


def folder() -> Path:
    """The folder of the measured tables."""
    return Path(str(files("gradcast.reproduce").joinpath("measured")))


@cache
def measured(name: str) -> Saved | None:
    """A table or figure by its ID; None where nothing of it was measured."""
    file = folder() / f"{name.upper()}.json"
    return read_saved(file) if file.is_file() else None


def measured_rows(name: str) -> int:
    """How many of its rows have a number."""
    found = measured(name)
    return 0 if found is None else sum(bool(line.ours) for line in found.lines)
