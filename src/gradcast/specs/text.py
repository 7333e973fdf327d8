"""Specifications as text: TOML files, presets, ``--set key=value``, and errors a person can act on."""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gradcast.errors import GradcastError
from gradcast.specs.changed_labels import with_changes_told
from gradcast.specs.compatibility import contradiction
from gradcast.specs.messages import explain, fields
from gradcast.specs.spec import CHOICES, LONGEST_NAME, SEVERAL, Row, Setting, Spec, describe
from gradcast.specs.table import Table, nearest

Raw = dict[str, Any]
DEFAULT_NAMES = {"model": "mlp", "learner": "gem", "signal": "none", "pool": "patches"}
HEADER = [key for key in Spec.model_fields if key != "rows"]
TABLES = list(Setting.model_fields)
ROW_KEYS = [key for key in Row.model_fields if key != "setting"]
OF_SCENARIOS = ("scenario", "tasks", "classes_per_task", "class_order")  # what tasks of one's own say themselves
PLACES = (("stream", "path"), ("pool", "path"), ("model", "weights"))  # keys that name files or folders
NESTED = (("model", "arguments"), ("model", "rates"))  # keys that are tables themselves


def presets() -> dict[str, str]:
    """Every preset with its title."""
    found = sorted(files("gradcast.specs").joinpath("presets").iterdir(), key=lambda entry: entry.name)
    texts = {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in found
        if entry.name.endswith(".toml")
    }
    return {name: tomllib.loads(text)["title"] for name, text in texts.items()}


def load(name: str, settings: Iterable[str] = ()) -> Spec:
    """A preset by name or a TOML file by path, with ``key=value`` settings applied on top."""
    path = Path(name)
    if own_file := path.suffix == ".toml" or path.is_file():
        text = _read(path)
    elif name in presets():
        text = files("gradcast.specs").joinpath("presets", f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise GradcastError(f"there is no preset or file {name!r}{nearest(name, presets())}")
    given = _toml(text, name)
    given.setdefault("name", run_name(path.stem))
    _check_places(given, name)
    raw = given
    for setting in settings:
        raw = assign(raw, setting)
    found = parse(raw if own_file else _named_after_data(raw, given))
    return found if raw is given else with_changes_told(found, lambda: parse(given))


def run_name(words: str) -> str:
    """A name for a run, made of a file's or folder's."""
    return re.sub(r"[^a-z0-9_-]+", "-", words.lower()).strip("-_")[:LONGEST_NAME] or "run"


def _named_after_data(raw: Raw, preset: Raw) -> Raw:
    """A preset that is set upon other labelled data is named and titled after them, unless the caller says how."""
    own, before = (_tables(tables).get("stream", {}) for tables in (raw, preset))
    if all(own.get(key) == before.get(key) for key in ("source", "path")):
        return raw
    place = own.get("path") or own.get("source")
    what = Path(os.path.abspath(place)).name if isinstance(place, str) else "own-tasks"
    told = {key: raw[key] for key in ("name", "title") if raw.get(key) != preset.get(key)}
    return raw | {"name": run_name(Path(what).stem), "title": f"{what}, with the settings of {preset['name']}"} | told


def _toml(text: str, what: str) -> Raw:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise GradcastError(f"{what} is not valid TOML: {error}") from None


def _check_places(raw: Raw, file: str) -> None:
    """A file may come from anybody: the places it names are absolute or within the folders where data are looked up."""
    for owner in (raw, *_rows(raw)):
        named = [
            (table, key, own) for table, key in PLACES for own in _several(owner.get(table)) if isinstance(own, dict)
        ]
        for table, key, own in named:
            for place in _several(own.get(key)):
                if isinstance(place, str) and ".." in Path(place).parts:
                    raise GradcastError(
                        f"{table}.{key} = {place!r} in {file} climbs out of its folder; write the whole path, or give "
                        f"it yourself: --set {table}.{key}=PATH"
                    )


def parse(given: str | Mapping[str, Any]) -> Spec:
    """A specification from TOML text or nested tables: common ones on top, and a list ``row`` of what differs."""
    raw = _toml(given, "the specification") if isinstance(given, str) else given
    for key in raw:
        if key not in (*HEADER, *TABLES, "row"):
            raise GradcastError(f"unknown key {key!r}{nearest(key, [*HEADER, *TABLES, 'row'])}")
    rows = _rows(raw) or [{"name": "run"}]
    common = _merge({table: {"name": name} for table, name in DEFAULT_NAMES.items()}, _tables(raw))
    validated(common)  # a mistake there belongs to no row
    parsed = [_row(row, index, common) for index, row in enumerate(rows)]
    try:
        return Spec.model_validate({key: raw[key] for key in HEADER if key in raw} | {"rows": parsed})
    except ValidationError as error:
        raise GradcastError(explain(error)) from None


def validated(tables: Raw) -> Setting:
    """A setting from its tables."""
    try:
        return Setting.model_validate(tables)
    except ValidationError as error:
        raise GradcastError(explain(error)) from None


def dump(spec: Spec) -> str:
    """TOML that parses back to the same specification: the first row's tables, then what differs in the others."""
    lines = [f"{key} = {value_text(getattr(spec, key))}" for key in HEADER]
    first = spec.rows[0].setting
    said = first.model_dump()
    for table, content in said.items():
        for own in _several(content):
            heading = f"[[{table}]]" if isinstance(content, list) else f"[{table}]"
            lines += ["", heading, *(f"{key} = {value_text(value)}" for key, value in own.items())]
    for row in spec.rows:
        lines += ["", "[[row]]", f"name = {value_text(row.name)}", f"label = {value_text(row.label)}"]
        lines += [] if row.control is None else [f"control = {value_text(row.control)}"]
        for table, content in row.setting.model_dump().items():
            lines += _differences(table, content, first, row.setting)
    return "\n".join(lines) + "\n"


def _differences(table: str, content: Any, first: Setting, setting: Setting) -> list[str]:
    """What a row says of a table that the first row says otherwise."""
    before, now = getattr(first, table), getattr(setting, table)
    if table in SEVERAL and (len(before) > 1 or len(now) > 1):
        return [] if before == now else [f"{table} = {value_text(_several(content))}"]
    common, own = (dict(each[0] if table in SEVERAL else each) for each in (before, now))
    renamed = own.get("name") != common.get("name")
    content = content[0] if isinstance(content, list) else content
    changed = [key for key in own if (renamed and key in content) or own[key] != common.get(key, own[key])]
    return [f"{table}.{key} = {value_text(own[key])}" for key in changed]


def _several(content: Any) -> list[Any]:
    """A table, or the tables of a list."""
    return content if isinstance(content, list) else [content]


def override(spec: Spec, change: Raw) -> Spec:
    """The same specification with some keys of some tables changed in every row."""
    settings = [validated(_merge(row.setting.model_dump(), change)) for row in spec.rows]
    rows = [row.model_copy(update={"setting": own}) for row, own in zip(spec.rows, settings, strict=True)]
    return spec.model_copy(update={"rows": rows})


def _row(raw: Raw, index: int, common: Raw) -> Row:
    for key in raw:
        if key not in (*ROW_KEYS, *TABLES):
            raise GradcastError(f"unknown key 'row.{key}'{nearest(key, [*ROW_KEYS, *TABLES])}")
    name = raw.get("name", f"row-{index}")
    try:
        setting = Setting.model_validate(_merge(common, _tables(raw)))
        problem = contradiction(setting)
        if problem is not None:
            raise GradcastError(f"row {name!r}: {problem}" if len(raw) > 1 or index else problem)
        label = raw.get("label", describe(setting))
        return Row(name=name, label=label, setting=setting, control=raw.get("control"))
    except ValidationError as error:
        raise GradcastError(f"row {name!r}: {explain(error)}") from None


def _rows(raw: Mapping[str, Any]) -> list[Raw]:
    rows = raw.get("row", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise GradcastError("'row' must be a list of tables; write each as [[row]]")
    return rows


def _tables(raw: Mapping[str, Any]) -> Raw:
    found = {key: raw[key] for key in TABLES if key in raw}
    for key, value in found.items():
        listed = key in SEVERAL and isinstance(value, list) and value and all(isinstance(own, dict) for own in value)
        if not isinstance(value, dict) and not listed:
            raise GradcastError(f"{key!r} must be a table; write [{key}] or {key}.KEY = VALUE")
    return found


def _merge(base: Raw, change: Raw) -> Raw:
    """Tables of ``base`` with the keys of ``change``; a new name keeps what the newly named choice also has.

    Signals share words that mean different things in each; only the length alpha is the same in all. Schedules share
    none. The source 'tasks' takes the place of a scenario and of its keys.
    """
    merged = {table: content if isinstance(content, list) else dict(content) for table, content in base.items()}
    for table, content in change.items():
        inherited = merged.get(table, {})
        if isinstance(content, list):
            merged[table] = content
            continue
        if isinstance(inherited, list):
            merged[table] = _merge_several(table, inherited, content)
            continue
        renamed = CHOICES.get(table, {}).get(str(content["name"])) if "name" in content else None
        if renamed is not None:
            another = inherited.get("name") != content["name"]
            common = (
                {"signal": {"alpha"}, "schedule": set[str]()}.get(table, inherited.keys())
                if another
                else inherited.keys()
            )
            kept = renamed.model_fields.keys() & common
            inherited = {key: value for key, value in inherited.items() if key in kept}
        if table == "stream" and content.get("source") == "tasks" != inherited.get("source"):
            inherited = {key: value for key, value in inherited.items() if key not in OF_SCENARIOS}
        merged[table] = inherited | content
    return merged


def _merge_several(table: str, inherited: list[Raw], content: Raw) -> Any:
    """Keys for several tables at once: every one that knows them takes them; another name takes the place of all."""
    if "name" in content:
        return content
    known = [fields(table, str(own.get("name"))) for own in inherited]
    for key in content:
        if not any(key in fields for fields in known):
            return [own | content for own in inherited]  # validation names the unknown key
    return [
        own | {k: v for k, v in content.items() if k in fields} for own, fields in zip(inherited, known, strict=True)
    ]


def assign(raw: Raw, setting: str) -> Raw:
    """The raw tables with ``table.key=value`` (or ``row.NAME.table.key=value``) applied."""
    if not setting.isprintable():
        raise GradcastError(f"--set {setting!r} holds characters that cannot be printed; remove them")
    key, equals, text = setting.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise GradcastError(f"--set {setting!r} is not KEY=VALUE, as in --set stream.tasks=5")
    if parts[0] == "row" and len(parts) > 2:
        rows = _rows(raw)
        names = [row.get("name", f"row-{index}") for index, row in enumerate(rows)]
        if parts[1] not in names:
            raise GradcastError(f"there is no row {parts[1]!r}{nearest(parts[1], names)}")
        rest = ".".join(parts[2:]) + "=" + text
        return raw | {
            "row": [assign(row, rest) if name == parts[1] else row for row, name in zip(rows, names, strict=True)]
        }
    if len(parts) == 1:
        return raw | {parts[0]: literal(text)}
    inner = tuple(parts[:2]) in NESTED and len(parts) == 3
    if (len(parts) > 2 and not inner) or parts[0] not in TABLES:
        ending = "" if parts[0] in TABLES else f".{'.'.join(parts[1:])}"
        raise GradcastError(f"unknown key {key.strip()!r}{nearest(parts[0], TABLES, ending=ending)}")
    before = _tables({parts[0]: raw.get(parts[0], {})})
    value = before[parts[0]].get(parts[1], {}) | {parts[2]: literal(text)} if inner else literal(text)
    listed = parts == ["stream", "path"] and isinstance(value, list)
    if parts[1] in ("path", "weights") and not isinstance(value, str) and not listed:  # a folder may be called 2017
        value = text.strip()
    return raw | _merge(before, {parts[0]: {parts[1]: value}})


def literal(text: str) -> object:
    """A TOML value; a bare word is a string."""
    try:
        parsed = tomllib.loads(f"value = {text.strip()}")
    except (ValueError, RecursionError):  # not TOML, a number beyond all measure, or nesting without end
        return text.strip()
    value: object = parsed["value"] if set(parsed) == {"value"} else text
    return value


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise GradcastError(
            f"the specification {path} does not exist; name a preset ({', '.join(presets())}) or a TOML file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise GradcastError(f"the specification {path} cannot be read: {error}") from None


def value_text(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Table):  # within a table
        value = value.model_dump()
    if isinstance(value, list):
        return "[" + ", ".join(map(value_text, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{value_text(str(key))} = {value_text(entry)}" for key, entry in value.items()) + "}"
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
