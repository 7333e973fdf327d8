"""Writes every setting of every table into the documentation, from the code.

    python tools/render_settings.py

Learners and signals have pages of their own, which end with their settings. All other tables of a specification, and
those of a suite, are docs/reference/settings.md.
"""

import re
from collections.abc import Iterator, Mapping
from inspect import getdoc
from pathlib import Path

from gradcast.head_start.head_start_table import HeadStartSpec
from gradcast.learners.registry import LEARNERS
from gradcast.networks.registry import NETWORKS, ModelTable
from gradcast.signals.policy import Policy
from gradcast.signals.registry import SIGNALS
from gradcast.specs.entry import Registry
from gradcast.specs.settings_list import SettingLine, settings_of
from gradcast.specs.spec import EvaluationSpec, Row, Setting, Spec, StreamSpec
from gradcast.specs.table import Table
from gradcast.streams.pool_tables import POOLS, PoolTable
from gradcast.sweeps.suite import RunEntry, SuiteTable, SweepEntry
from gradcast.training.schedule_tables import SCHEDULES

DOCS = Path(__file__).parents[1] / "docs"
REFERENCE = DOCS / "reference" / "settings.md"
HEADING = "## Settings\n"
INDEXES: dict[str, Registry] = {"learner": LEARNERS, "signal": SIGNALS}  # docs/learners.md and docs/signals.md
INTRODUCTION = """# Every setting

A specification is a TOML file of the tables below. `--set TABLE.KEY=VALUE` changes one key on the command line.
[Specifications](../specification.md) says what the tables are for. Unknown keys, and values of another type, are
refused with a sentence. `python tools/render_settings.py` writes this page from the code.
"""
NAME = SettingLine("name", "text", "the name of the file", "the beginning of the run directory's name")
ROW_NAME = SettingLine("name", "text", "", "of the row's folder, and in row.NAME.KEY")
ROW_LABEL = SettingLine("label", "text", "made of the setting", "what tables call the row")
SUITE_NAME = SettingLine("name", "text", "", "of its report's folder")


def main() -> None:
    """All pages of methods, and the reference."""
    for page, (kind, names) in pages().items():
        before = page.read_text(encoding="utf-8").partition(HEADING)[0].rstrip("\n")
        page.write_text(f"{before}\n\n{rendered(kind, names)}", encoding="utf-8")
    REFERENCE.parent.mkdir(exist_ok=True)
    REFERENCE.write_text(reference(), encoding="utf-8")


def pages() -> dict[Path, tuple[str, list[str]]]:
    """The kind and names of the methods of each page, as docs/learners.md and docs/signals.md list them."""
    found = {}
    for kind in INDEXES:
        index = (DOCS / f"{kind}s.md").read_text(encoding="utf-8")
        for names, page in re.findall(r"^\| \[(.*?)\]\((.*?)\)", index, flags=re.MULTILINE):
            found[DOCS / page] = (kind, re.findall(r"`([^`]+)`", names))
    return found


def rendered(kind: str, names: list[str]) -> str:
    """The last section of a page: a table for each different table of settings."""
    parts, registry = [HEADING], INDEXES[kind]
    for entry, named in _together(registry, names).items():
        chosen = " or ".join(f'`{kind}.name = "{name}"`' for name in named)
        parts += [f"{chosen}. Cost: {_marked(registry[named[0]].cost)}.", _lines(settings_of(entry))]
    return _joined(parts)


def reference() -> str:
    """The page of all tables but those of learners and signals."""
    parts = [INTRODUCTION]
    parts += ["## The run", _lines([NAME, *(own for own in settings_of(Spec) if own.name != "rows")])]
    tables = [SettingLine(own.name, own.type, "", own.meaning) for own in settings_of(Setting)]
    parts += ["The tables of a run, and of each row:", _lines(tables, default=False)]
    told = 'Any key of any table may stand in a row, as in `learner.name = "er"`: it says what differs there.'
    rows = [own for own in settings_of(Row) if own.name not in ("label", "setting")]
    parts += ["## `[[row]]`", f"{_about(Row)} {told}", _lines([ROW_NAME, ROW_LABEL, *rows])]
    for name, table in {"stream": StreamSpec, "policy": Policy, "evaluation": EvaluationSpec}.items():
        parts += [f"## `[{name}]`", _about(table), _lines(settings_of(table))]
    parts += ["## `[head_start]`", f"{_about(HeadStartSpec)} [Head start](../head-start.md) says more."]
    parts += [_lines(_without_tables(settings_of(HeadStartSpec)))]
    parts += ["## `[schedule]`", *_choices("schedule", SCHEDULES, Table)]
    parts += ["## `[pool]`", *_choices("pool", POOLS, PoolTable)]
    parts += ["## `[model]`", "[Networks](../networks.md) says more.", *_choices("model", NETWORKS.tables, ModelTable)]
    for kind, registry in INDEXES.items():
        parts += [f"## `[{kind}]`", *_linked(kind, registry)]
    parts += ["## Suites", "The keys of a file for `gradcast suite` ([sweeps and suites](../sweeps.md))."]
    parts += [_lines([SUITE_NAME, *settings_of(SuiteTable)])]
    parts += ["### `[[run]]`", _lines(settings_of(RunEntry)), "### `[[sweep]]`", _lines(settings_of(SweepEntry))]
    return _joined(parts)


def _choices(kind: str, tables: Mapping[str, type[Table]], common: type[Table]) -> Iterator[str]:
    """What all have, then what each has beside it."""
    shared = [own for own in settings_of(common) if own.name != "name"]
    if shared:
        yield _about(common)
        yield _lines(shared)
    for table, names in _grouped(tables).items():
        own = [line for line in settings_of(table) if line not in shared]
        yield f"### {kind}: {', '.join(f'`{name}`' for name in names)}"
        yield _about(table)
        yield _lines(own) if own else "No settings of its own."


def _linked(kind: str, registry: Registry) -> Iterator[str]:
    """The pages of methods; of those without a page their settings."""
    own = {name: page for page, (of, names) in pages().items() if of == kind for name in names}
    links = [f"[`{name}`](../{own[name].relative_to(DOCS).as_posix()})" for name in registry if name in own]
    yield f"`{kind}.name` chooses one; each page ends with the settings: {', '.join(links)}."
    for name in (name for name in registry.entries if name in registry.own and name not in own):
        yield f"### {kind}: `{name}`"
        yield _about(registry[name].table)
        yield _lines(settings_of(registry[name].table))


def _together(registry: Registry, names: list[str]) -> dict[type[Table], list[str]]:
    return _grouped({name: registry[name].table for name in names})


def _grouped(tables: Mapping[str, type[Table]]) -> dict[type[Table], list[str]]:
    """Names that share a table."""
    found: dict[type[Table], list[str]] = {}
    for name, table in tables.items():
        found.setdefault(table, []).append(name)
    return found


def _without_tables(lines: list[SettingLine]) -> list[SettingLine]:
    """The default of a list of tables is too long for a cell."""
    return [
        SettingLine(own.name, own.type, "contrastive", own.meaning) if own.type == "list of tables" else own
        for own in lines
    ]


def _lines(lines: list[SettingLine], *, default: bool = True) -> str:
    """Settings as a table of Markdown."""
    head = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    found = [f"| `{own.name}` | {own.type} | {_code(own.default)} | {_marked(own.meaning)} |" for own in lines]
    if not default:
        head = ["| table | type | meaning |", "|---|---|---|"]
        found = [f"| `{own.name}` | {own.type} | {_marked(own.meaning)} |" for own in lines]
    return "\n".join([*head, *found])


def _about(table: type[Table]) -> str:
    return _marked((getdoc(table) or "").partition("\n\n")[0].replace("\n", " "))


def _code(default: str) -> str:
    """A default as TOML has it; nothing where a setting may be left out."""
    if not default:
        return "must be given"
    return "" if default == "None" else f"`{default}`"


def _marked(comment: str) -> str:
    """A comment of the source as Markdown has it."""
    return comment.replace("``", "`").replace("|", "\\|")


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


if __name__ == "__main__":
    main()
