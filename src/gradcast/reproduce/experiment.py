"""A table or figure: its rows, what was published of each, and the settings that make them.

One TOML file each, under ``tables``. A row is a setting as in any specification: common tables, and what differs from
them, or from a row that it is ``like``, of this experiment or of another. ``not_reproduced`` says why a row cannot be
run. A sweep is a row for each value of one key.
"""

import tomllib
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from pydantic import ValidationError

from gradcast.errors import GradcastError
from gradcast.reproduce.experiment_tables import Figures, Header, RowTable, SweepTable
from gradcast.specs.spec import Control, Setting
from gradcast.specs.table import nearest
from gradcast.specs.text import TABLES, parse


@dataclass(frozen=True)
class Item:
    """One row; without a setting it cannot be run."""

    name: str
    label: str
    setting: Setting | None
    against: str = ""
    published: Mapping[str, float] | None = None
    pretrained: bool = False
    sweep: SweepTable | None = None  # that it is part of
    value: str = ""  # there
    control: Control = None
    not_reproduced: str = ""  # why it cannot be run

    @property
    def missing(self) -> str:
        """Why there is nothing to run, as tables say it."""
        return f"not reproduced: {self.not_reproduced}" if self.not_reproduced else ""


@dataclass(frozen=True)
class Experiment:
    """A table or figure with all its rows."""

    header: Header
    items: tuple[Item, ...]

    @property
    def published(self) -> bool:
        """Whether anything was published of it; otherwise it is our own."""
        return any(item.published for item in self.items)

    def item(self, name: str) -> Item:
        """A row by name."""
        for item in self.items:
            if item.name == name:
                return item
        known = [item.name for item in self.items]
        raise GradcastError(f"{self.header.id} has no row {name!r}{nearest(name, known)}")

    def changed(self, settings: Mapping[str, Any], rows: Container[str]) -> "Experiment":
        """The same with some keys changed in these rows."""
        return replace(
            self, items=tuple(with_changes(item, settings) if item.name in rows else item for item in self.items)
        )


def with_changes(item: Item, changes: Mapping[str, Any]) -> Item:
    """A row with some keys changed."""
    if item.setting is None or not changes:
        return item
    try:
        return replace(item, setting=_parsed(item.setting.model_dump(), [dict(changes)])[0])
    except GradcastError as error:
        raise GradcastError(f"the row {item.name!r} cannot be changed so: {str(error).partition(': ')[2]}") from None


def names() -> list[str]:
    """IDs of all experiments: published tables, our own, then figures, in the order of their numbers."""
    found = [entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.name.endswith(".toml")]
    return sorted(found, key=lambda name: ("ECPSZF".index(name[0]), int(name[1:] or 0)))


@cache
def load(name: str) -> Experiment:
    """An experiment by its ID, in any case."""
    known = names()
    if name.upper() not in known:
        raise GradcastError(f"there is no table or figure {name!r}{nearest(name.upper(), known)}")
    raw = tomllib.loads(_folder().joinpath(f"{name.upper()}.toml").read_text(encoding="utf-8"))
    try:
        return read(raw)
    except (GradcastError, ValidationError) as error:
        raise GradcastError(f"experiment {name}: {error}") from None


def read(raw: Mapping[str, Any]) -> Experiment:
    """An experiment from nested tables."""
    rows, sweeps = raw.get("row", []), raw.get("sweep", [])
    header = Header.model_validate({key: value for key, value in raw.items() if key not in (*TABLES, "row", "sweep")})
    common = {table: raw[table] for table in TABLES if table in raw}
    if header.like:
        common = _setting(header.like).model_dump() | common
    items: list[Item] = []
    for own in rows:
        items.append(_item(own, common, items))
    for own in sweeps:
        items += _sweep(SweepTable.model_validate(own), common, items)
    for item in items:
        if item.against and item.against not in {other.name for other in items}:
            raise GradcastError(f"row {item.name!r} is compared with {item.against!r}, which is no row")
        for name in item.control if isinstance(item.control, list) else ():
            if name not in {other.name for other in items}:
                raise GradcastError(f"row {item.name!r} is a control of {name!r}, which is no row")
    return Experiment(header, tuple(items))


def _item(raw: Mapping[str, Any], common: Mapping[str, Any], before: list[Item]) -> Item:
    row = RowTable.model_validate({key: value for key, value in raw.items() if key not in TABLES})
    setting = None
    if not row.not_reproduced:
        base = _like(row.like, before).model_dump() if row.like else common
        setting = _parsed(base, [{table: raw[table] for table in TABLES if table in raw}])[0]
    return Item(
        row.name,
        row.label,
        setting,
        row.against,
        row.published or None,
        row.pretrained,
        control=row.control,
        not_reproduced=row.not_reproduced,
    )


def _sweep(sweep: SweepTable, common: Mapping[str, Any], items: list[Item]) -> list[Item]:
    table, _, key = sweep.key.partition(".")
    tables = common
    if sweep.of:
        own = {item.name: item.setting for item in items}
        base = own[sweep.of] if sweep.of in own else _setting(sweep.of)
        tables = {} if base is None else base.model_dump()
    settings = _parsed(tables, [{table: {key: value} if key else value} for value in sweep.values])
    first = next((item.setting for item in items if item.name == sweep.against), None)
    plain = [sweep.nothing is not None and value == sweep.nothing for value in sweep.values]
    if any(plain) and first is None:
        raise GradcastError(f"the sweep {sweep.name!r} needs the row that {sweep.key} = {sweep.nothing} stands for")
    published: list[Figures | None] = [*sweep.published] or [None] * len(sweep.values)
    called = sweep.called or sweep.values
    paired = sweep.against in {item.sweep.name for item in items if item.sweep}
    return [
        Item(f"{sweep.name}-{_word(value)}", f"{sweep.label} {_said(value)}", first if same else setting,
             "" if same else f"{sweep.against}-{_word(value)}" if paired else sweep.against,
             published=figures, sweep=sweep, value=_word(value), control=sweep.control)
        for value, setting, figures, same in zip(called, settings, published, plain, strict=True)
    ]  # fmt: skip


def _like(place: str, before: list[Item]) -> Setting:
    """The setting of ``ID/row``, or of a row before this one in the same table."""
    here = [item.setting for item in before if item.name == place and item.setting is not None]
    return here[0] if here else _setting(place)


def _setting(place: str) -> Setting:
    """The setting of ``ID/row``."""
    name, _, row = place.partition("/")
    found = load(name).item(row).setting
    if found is None:
        raise GradcastError(f"{place} cannot be run, so nothing can be like it")
    return found


def _parsed(common: Mapping[str, Any], rows: list[dict[str, Any]]) -> list[Setting]:
    named = [{"name": f"row-{index}"} | row for index, row in enumerate(rows)]
    return [row.setting for row in parse({"name": "experiment", **common, "row": named}).rows]


def _word(value: object) -> str:
    """A value as part of a name."""
    parts = value if isinstance(value, list) else [value]
    return "-".join(f"{part:g}" if isinstance(part, float) else str(part).lower() for part in parts) or "linear"


def _said(value: object) -> str:
    """A value as part of a label."""
    return _word(value).replace("-", ",") if isinstance(value, list) else _word(value)


def _folder() -> Traversable:
    return files("gradcast.reproduce").joinpath("tables")
