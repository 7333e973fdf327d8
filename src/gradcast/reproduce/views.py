"""A table's rows as run directories, which reports, comparisons and the live view take like any other.

Beside a table lies a folder for each row that others are compared with, say ``runs/E1/gem``: a specification of
that row and of those, and links to where their seeds lie in the cells. Rows that share other seeds with it have another
folder, say ``runs/E1/gem-3-seeds``.
"""

import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcast.reproduce.cells import ROW, Cell
from gradcast.reproduce.experiment import Item
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.reproduce import Request
from gradcast.reproduce.show_table import heading
from gradcast.runs import manifest
from gradcast.runs.directory import DIVERGED, FAMILY, UNDONE, RunDirectory, TableFamily
from gradcast.runs.jsontext import to_json
from gradcast.runs.manifest import write_manifest
from gradcast.runs.safe_files import make_folder, write_text
from gradcast.runs.sealed import write_sealed
from gradcast.specs.spec import Control, Row, Spec
from gradcast.specs.text import dump

Slots = Mapping[int, RunDirectory]  # where each seed lies
Rows = Mapping[str, tuple[Item, Slots]]  # by name


def lay_out(wanted: Request, found: Sequence[Line]) -> list[Path]:
    """Make or renew those folders, of what was trained here; a row that is compared with none has its own.

    The caller has the table's lock: several processes may train rows of one table, and the last one sees all.
    """
    rows = {line.item.name: (line.item, _places(wanted, line.item)) for line in found}
    trained = {name: own for name, own in rows.items() if own[1]}
    bases = {item.against for item in wanted.experiment.items}
    family = Family.of(found)
    made = [
        _run(wanted, {name: trained[name] for name in group.names}, group, family) for group in _groups(trained, bases)
    ]
    for old in {file.parent for file in wanted.folder.glob("*/spec.toml")} - set(made):
        if not old.is_symlink():
            _remove(old)
    return made


def plain(name: str) -> str:
    """As rows of a specification may be called: a value in a name may have a point."""
    return re.sub(r"[^a-z0-9_-]+", "_", name.lower())


def _places(wanted: Request, item: Item) -> Slots:
    places = {} if item.setting is None else Cell(item.setting, wanted.dtype).places(wanted.cells)
    return {seed: places[seed] for seed in wanted.seeds if seed in places}


@dataclass(frozen=True)
class Group:
    """Rows that are shown together, the base first, and the seeds that all of them have."""

    folder: str
    names: list[str]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Family:
    """What a folder must know of the whole table, so that its verdicts are the table's."""

    claims: Mapping[str, tuple[tuple[str, str], float]]  # rows that claim something: what was compared, and its p-value
    ratios: Mapping[str, float]  # lengths of what signals add beside the labelled gradient

    @classmethod
    def of(cls, found: Sequence[Line]) -> "Family":
        """Of a table's lines."""
        trained = {line.item.name: line.trained for line in found if line.trained is not None}
        claims = {
            line.item.name: ((trained[line.item.name].cell, trained[line.item.against].cell), line.paired.wilcoxon)
            for line in found
            if line.paired is not None and line.paired.wilcoxon_holm is not None
        }
        return cls(claims, {name: own.ratio for name, own in trained.items() if own.ratio is not None})

    def elsewhere(self, names: Sequence[str]) -> list[float]:
        """p-values of claims that none of these rows makes; two names of one comparison are one claim."""
        here = {self.claims[name][0] for name in names if name in self.claims}
        return list({key: p for key, p in self.claims.values() if key not in here}.values())


def _groups(trained: Rows, bases: Container[str]) -> list[Group]:
    """The largest group of a base has its name.

    Rows that are all shown under other names already are left out, which are those of ``bases`` if there is a choice.
    """
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name, (item, places) in trained.items():
        base = trained.get(item.against)
        common = () if base is None else tuple(seed for seed in base[1] if seed in places)
        groups.setdefault((item.against, common) if common else (name, tuple(places)), []).append(name)
    found = [([base, *(name for name in names if name != base)], seeds) for (base, seeds), names in groups.items()]
    kept: list[Group] = []
    seen: list[set[Path]] = []
    for names, seeds in sorted(found, key=lambda own: (len(own[0]), own[0][0] in bases), reverse=True):
        own = [_paths(trained[name][1]) for name in names]
        if not all(paths in seen for paths in own):
            folder = plain(names[0])
            taken = folder in [group.folder for group in kept]
            kept.append(Group(f"{folder}-{_counted(seeds)}" if taken else folder, names, seeds))
            seen += own
    return kept


def _counted(seeds: tuple[int, ...]) -> str:
    count = len(seeds)
    return f"{count}-seeds" if seeds == tuple(range(count)) else f"seeds-{'-'.join(map(str, seeds))}"


def _run(wanted: Request, rows: Rows, group: Group, family: Family) -> Path:
    folder, seeds = wanted.folder / group.folder, list(group.seeds)
    _remove_rows(_linked(folder) - {folder / plain(name) for name in rows})  # which are in another folder by now
    for name, (_, places) in rows.items():
        _link(folder / plain(name), {seed: places[seed] for seed in seeds})
    items = [(item, item.setting) for item, _ in rows.values() if item.setting is not None]
    made = [
        Row(name=plain(item.name), label=item.label, setting=setting, control=_control(item, rows))
        for item, setting in items
    ]
    title = heading(wanted, len(seeds))
    spec = Spec(name=group.folder, title=title, seeds=seeds, dtype=wanted.dtype, rows=made)
    write_text(folder / "spec.toml", dump(spec))
    for row in made:
        write_manifest(folder / row.name, dump(spec), {})  # of what is no link; the rest is vouched for where it lies
    ratios = {plain(name): family.ratios[name] for name in group.names if name in family.ratios}
    write_sealed(folder / FAMILY, TableFamily(elsewhere=family.elsewhere(group.names), ratios=ratios))
    return folder


def _control(item: Item, rows: Rows) -> Control:
    """Of the rows that lie beside it."""
    if not isinstance(item.control, list):
        return item.control
    return [plain(name) for name in item.control if name in rows]


def _link(row: Path, places: Slots) -> None:
    """The row's seeds, and what was said of them; the times of several trainings are not those of one."""
    make_folder(row.parent)
    make_folder(row)
    _clear(row)
    diverged = {seed: why for seed, place in places.items() if (why := place.diverged(ROW).get(seed)) is not None}
    RunDirectory(row.parent).lose(row.name, diverged)
    for seed, place in places.items():
        if seed not in diverged:
            _point(row / f"seed-{seed}", place.seed(ROW, seed))
    first = next(iter(places.values()))
    _point(row / "stream.json", first.path / ROW / "stream.json")
    if len(_paths(places)) == 1:
        _point(row / "env.json", first.path / ROW / "env.json")
    else:
        trained = {str(seed): place.path.name for seed, place in places.items()}
        undone = {str(seed): share for seed, place in places.items() if (share := place.undone(ROW).get(seed))}
        write_text(row / "env.json", to_json({"time": {}, "trained": trained, **({UNDONE: undone} if undone else {})}))


def _remove(folder: Path) -> None:
    """What was laid out there; whatever else somebody put there stays."""
    rows = _linked(folder)
    _remove_rows(rows)
    if rows:
        (folder / FAMILY).unlink(missing_ok=True)
        (folder / "spec.toml").unlink()  # last: by it the folder is found
    if not any(folder.iterdir()):
        folder.rmdir()


def _linked(folder: Path) -> set[Path]:
    """Rows that were laid out there, none of which is a link itself."""
    return {link.parent for link in folder.glob("*/seed-*") if link.is_symlink() and not link.parent.is_symlink()}


def _remove_rows(rows: Iterable[Path]) -> None:
    for row in rows:
        _clear(row)
        if not any(row.iterdir()):
            row.rmdir()


def _clear(row: Path) -> None:
    for entry in row.iterdir():
        if entry.is_symlink() or entry.name in ("env.json", DIVERGED, manifest.NAME):
            entry.unlink()


def _point(link: Path, file: Path) -> None:
    link.symlink_to(os.path.relpath(file.resolve(), link.parent.resolve()))


def _paths(places: Slots) -> set[Path]:
    return {place.path for place in places.values()}
