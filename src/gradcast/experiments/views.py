"""A table's rows as run directories, which reports, comparisons and the live view take like any other.

Beside a table lies a folder for each row that others are compared with, say ``reproduced/E1/gem``: a specification of
that row and of those, and links to where their seeds lie in the cells.
"""

import fcntl
import os
import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from gradcast.experiments.cells import ROW, Cell
from gradcast.experiments.experiment import Item
from gradcast.experiments.outcome import Line
from gradcast.experiments.reproduce import Request
from gradcast.experiments.show import heading
from gradcast.spec import Row, Spec
from gradcast.specfile import dump
from gradcast.store import RunDirectory, to_json, write_text

Places = Mapping[int, RunDirectory]  # where each seed lies
Rows = Mapping[str, tuple[Item, Places]]  # by name


def lay_out(wanted: Request, found: Sequence[Line]) -> list[Path]:
    """Make or renew those folders, of what was trained here; a row that is compared with none has its own."""
    wanted.folder.mkdir(parents=True, exist_ok=True)
    with open(wanted.folder / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # several processes may train rows of one table: the last one sees all
        return _lay_out(wanted, found)


def _lay_out(wanted: Request, found: Sequence[Line]) -> list[Path]:
    rows = {line.item.name: (line.item, _places(wanted, line.item)) for line in found}
    trained = {name: own for name, own in rows.items() if own[1]}
    bases = {item.against for item in wanted.experiment.items}
    made = [_run(wanted, {name: trained[name] for name in names}) for names in _groups(trained, bases)]
    for old in {file.parent for file in wanted.folder.glob("*/spec.toml")} - set(made):
        _remove(old)
    return made


def plain(name: str) -> str:
    """As rows of a specification may be called: a value in a name may have a point."""
    return re.sub(r"[^a-z0-9_-]+", "_", name.lower())


def _places(wanted: Request, item: Item) -> Places:
    places = {} if item.setting is None else Cell(item.setting, wanted.dtype).places(wanted.cells)
    return {seed: places[seed] for seed in wanted.seeds if seed in places}


def _groups(trained: Rows, bases: Container[str]) -> list[list[str]]:
    """Names of rows that are shown together, the base first, whose seeds the others must have.

    Rows that are all shown under other names already are left out, which are those of ``bases`` if there is a choice.
    """
    groups: dict[str, list[str]] = {}
    for name, (item, places) in trained.items():
        base = trained.get(item.against)
        paired = base is not None and base[1].keys() <= places.keys()
        groups.setdefault(item.against if paired else name, []).append(name)
    found = [[base, *(name for name in names if name != base)] for base, names in groups.items()]
    kept: list[list[str]] = []
    seen: list[set[Path]] = []
    for names in sorted(found, key=lambda names: (len(names), names[0] in bases), reverse=True):
        own = [_paths(trained[name][1]) for name in names]
        if not all(paths in seen for paths in own):
            kept.append(names)
            seen += own
    return kept


def _run(wanted: Request, rows: Rows) -> Path:
    """The first row decides which seeds."""
    base, (_, seeds) = next(iter(rows.items()))
    folder = wanted.folder / plain(base)
    for name, (_, places) in rows.items():
        _link(folder / plain(name), {seed: places[seed] for seed in seeds})
    items = [(item, item.setting) for item, _ in rows.values() if item.setting is not None]
    made = [Row(name=plain(item.name), label=item.label, setting=setting) for item, setting in items]
    spec = Spec(name=plain(base), title=heading(wanted), seeds=list(seeds), dtype=wanted.dtype, rows=made)
    write_text(folder / "spec.toml", dump(spec))
    return folder


def _link(row: Path, places: Places) -> None:
    """The row's seeds, and what was said of them; the times of several trainings are not those of one."""
    row.mkdir(parents=True, exist_ok=True)
    _clear(row)
    for seed, place in places.items():
        _point(row / f"seed-{seed}", place.seed(ROW, seed))
    first = next(iter(places.values()))
    _point(row / "stream.json", first.path / ROW / "stream.json")
    if len(_paths(places)) == 1:
        _point(row / "env.json", first.path / ROW / "env.json")
    else:
        trained = {str(seed): place.path.name for seed, place in places.items()}
        write_text(row / "env.json", to_json({"time": {}, "trained": trained}))


def _remove(folder: Path) -> None:
    """What was laid out there; whatever else somebody put there stays."""
    rows = {link.parent for link in folder.glob("*/seed-*") if link.is_symlink()}
    for row in rows:
        _clear(row)
    if rows:
        (folder / "spec.toml").unlink()
    for place in (*rows, folder):
        if not any(place.iterdir()):
            place.rmdir()


def _clear(row: Path) -> None:
    for entry in row.iterdir():
        if entry.is_symlink() or entry.name == "env.json":
            entry.unlink()


def _point(link: Path, file: Path) -> None:
    link.symlink_to(os.path.relpath(file.resolve(), link.parent.resolve()))


def _paths(places: Places) -> set[Path]:
    return {place.path for place in places.values()}
