"""Writes docs/claims.md: what the paper claims (tools/claims.toml), and what the measured tables say about it.

    python tools/render_claims.py

Every number comes from the files of src/gradcast/reproduce/measured.
"""

import tomllib
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from gradcast.reproduce.correlations import clouds, in_words
from gradcast.reproduce.experiment import Item, load
from gradcast.reproduce.measured_tables import courses, measured
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.render import Saved
from gradcast.reproduce.reproduce import DTYPE
from gradcast.reproduce.rows import result
from gradcast.reproduce.show_table import gain
from gradcast.results.report.words import number
from gradcast.results.statistics import Interval, interval

CLAIMS = Path(__file__).with_name("claims.toml")
PAGE = Path(__file__).parents[1] / "docs" / "claims.md"
HEAD = """# What the paper claims, and what we found

Every claim of the paper beside what we measured, one section for each. Rows are compared seed by seed. Verdicts follow
[one rule](verdicts.md); they and their intervals are corrected for all comparisons of a table. Controls, and rows with
too few seeds, have 95 % intervals of a single comparison. *Not measured yet* says nothing for or against a claim.

`python tools/render_claims.py` writes this page from the [measured tables](results.md).
"""
MEASURES = {
    "acc": "ACC (%)",
    "cosine": "mean cosine to the true gradient",
    "label_accuracy": "pseudo labels that are right (%)",
    "milliseconds": "ms a labelled image",
}
LEFT = "not measured yet"
DIVERGED = "diverged"  # begins the state of rows of which no seed is left
MOST_NAMES = 6  # of rows in a command; beyond, all of the table


@dataclass(frozen=True)
class Claim:
    """A sentence, and where to look."""

    title: str
    rows: list[str]
    up: bool | None = None
    measures: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Found:
    """A row that the claim is about, and what is known of it."""

    table: str
    item: Item
    line: Line | None  # None: not measured

    def base(self) -> str:
        """What the row it is compared with is called."""
        return load(self.table).item(self.item.against).label


def claims() -> list[Claim]:
    """All of them."""
    raw = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))["claim"]
    return [Claim(**own | {"measures": tuple(own.get("measures", ()))}) for own in raw]


def rows(claim: Claim) -> list[Found]:
    """Every row it names, in its order."""
    found = []
    for place in claim.rows:
        table, _, pattern = place.partition("/")
        known = [line for saved in reversed(courses(table)) for line in saved.lines]  # the table's own course last
        lines = {line.item.name: line for line in known if line.ours or _lost(line)}
        named = [item for item in load(table).items if fnmatch(item.name, pattern)]
        found += [Found(table, item, lines.get(item.name)) for item in named]
        if not named:
            raise SystemExit(f"{claim.title}: no row {place}")
    return found


def section(claim: Claim) -> str:
    """Its heading, the answer in a line, the rows, and the commands."""
    found = rows(claim)
    known = [own for own in found if own.line is not None and _tells(own.line, claim)]
    parts = [f"## {claim.title}", _answer(claim, found, known), *([claim.note] if claim.note else [])]
    if known:
        parts.append(_comparisons(known) if claim.up is not None else _measures(claim, known))
    parts += _correlations(claim)
    lacking = [own for own in found if own not in known]
    commands = [f"$ gradcast reproduce {table} --show" for table in dict.fromkeys(own.table for own in known)]
    for table in dict.fromkeys(own.table for own in lacking):
        commands.append(_training(table, [own.item.name for own in lacking if own.table == table]))
    return "\n\n".join([*parts, "\n".join(["```console", *commands, "```"])]) + "\n"


def _training(table: str, names: list[str]) -> str:
    """What trains rows that are not measured, in the arithmetic of those that are."""
    saved = measured(table)
    dtype = "" if saved is None or saved.wanted.dtype == DTYPE else f" --set dtype={saved.wanted.dtype}"
    chosen = f" --rows {','.join(names)}" if len(names) <= MOST_NAMES else ""
    return f"$ gradcast reproduce {table}{chosen}{dtype}"


def _answer(claim: Claim, found: list[Found], known: list[Found]) -> str:
    """How many rows say what."""
    if claim.up is None:
        said = Counter({"measured": len(known), LEFT: len(found) - len(known)})
    else:
        said = Counter(_said(own.line, up=claim.up) for own in found)
    parts = [f"{what}: {count}" for what, count in said.items() if count]
    return f"**{LEFT.capitalize()}.**" if not known else f"{'; '.join(parts).capitalize()}."


def _tells(line: Line, claim: Claim) -> bool:
    """Whether the row has what the claim is about."""
    return bool(_values(line, claim)) if claim.up is None else line.paired is not None or _lost(line)


def _lost(line: Line) -> bool:
    """Whether every seed diverged."""
    return line.state.startswith(DIVERGED)


def _said(line: Line | None, *, up: bool) -> str:
    if line is not None and _lost(line):
        return DIVERGED
    if line is None or line.paired is None:
        return LEFT
    if line.trained is not None and line.trained.sample("").at_chance:
        return "nothing was learned"
    match line.paired.kind:
        case "helps" | "costs" as kind:
            return "as claimed" if (kind == "helps") == up else "the opposite"
        case "no effect":
            return "no effect"
        case "control":
            return "controls, which have no verdict"
        case kind:
            return str(kind)


def _comparisons(known: list[Found]) -> str:
    head = "| table | row | compared with | gain published | seeds | comparisons | ours |"
    lines = [head, "|---" * 7 + "|"]
    for own in known:
        assert own.line is not None
        paired = own.line.paired
        cells = [own.table, own.item.label, own.base(), gain(own.line)]
        if paired is None:
            cells += ["", "", f"every seed {DIVERGED}"]
        else:
            among = paired.family if paired.wilcoxon_holm is not None else 1
            cells += [str(paired.difference.seeds), str(among), paired.verdict]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _measures(claim: Claim, known: list[Found]) -> str:
    head = [MEASURES[name] for name in claim.measures]
    lines = [f"| table | row | seeds | {' | '.join(head)} |", "|---|---|---|" + "---|" * len(head)]
    for own in known:
        assert own.line is not None
        values = _values(own.line, claim)
        seeds = next(iter(values.values())).seeds
        told = [number(values[name], digits=2) if name in values else "" for name in claim.measures]
        lines.append(f"| {' | '.join([own.table, own.item.label, str(seeds), *told])} |")
    return "\n".join(lines)


def _values(line: Line, claim: Claim) -> dict[str, Interval]:
    """Measures that the row has; empty where it lacks the first."""
    row = result(line)
    courses = {} if row is None else {name: interval(np.nanmean(own, 1).tolist()) for name, own in row.courses.items()}
    found = {**line.ours, **courses}
    return {name: found[name] for name in claim.measures if name in found} if claim.measures[0] in found else {}


def _correlations(claim: Claim) -> list[str]:
    """Of figures of points that the claim names."""
    tables = dict.fromkeys(place.partition("/")[0] for place in claim.rows)
    saved: list[Saved] = [own for table in tables if (own := measured(table)) is not None]
    return [f"{said}." for own in saved for said in in_words(clouds(own.wanted, own.lines))]


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *map(section, claims())])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
