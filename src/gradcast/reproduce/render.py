"""The page of a saved table: the same numbers, with the verdicts of the present rule. Nothing is trained."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradcast.reproduce.outcome import Line
from gradcast.reproduce.reproduce import Request, outcome, request
from gradcast.reproduce.saved_rows import unreadable
from gradcast.reproduce.show_table import about, markdown, table
from gradcast.reproduce.table_notes import notes
from gradcast.reproduce.trained import DEVIATION, joined_origins
from gradcast.results import wording
from gradcast.results.statistics import Interval, Shift
from gradcast.results.verdict import Paired
from gradcast.runs.jsontext import parse_json
from gradcast.runs.safe_files import write_text

NOWHERE = Path(".nothing-trained-here")
ORIGIN = re.compile(r"(?P<machine>.*), (?P<day>\d{4}-\d\d-\d\d)(, commit \w+)?")


@dataclass(frozen=True)
class Saved:
    """A table as a file has it."""

    wanted: Request
    lines: list[Line]
    origins: str
    notes: list[str]

    def markdown(self) -> str:
        """The page of the table."""
        below = [*notes(self.wanted, self.lines), *self.notes]
        return markdown(table(self.wanted, self.lines), about(self.wanted), self.origins, below)


def render(file: Path) -> Path:
    """Write the page of a saved table beside it, under the same name."""
    page = file.with_suffix(".md")
    write_text(page, read_saved(file).markdown())
    return page


def places(origins: str) -> str:
    """Machines, versions and days in one line; the saved table has the commits as well."""
    found = [match for own in origins.split("; ") if (match := ORIGIN.fullmatch(own))]
    days = sorted({match["day"] for match in found})
    machines = "; ".join(dict.fromkeys(match["machine"] for match in found))
    return f"Measured on {machines}, {' to '.join(dict.fromkeys([days[0], days[-1]]))}" if found else origins


def read_saved(file: Path) -> Saved:
    """The rows of the file and those that were trained with them, in the order of the experiment."""
    try:
        facts = parse_json(file.read_text(encoding="utf-8"))
        rows = {str(row["name"]): row for row in facts["rows"]}
        settings = [*map(str, facts["settings"]), f"dtype={facts['dtype']}"]
        name, seeds, quick = str(facts["id"]), len(facts["seeds"]), bool(facts["quick"])
        notes = [
            f"Pearson's correlation of cosine and ACC, {group}: r = {own['r']:.2f}, n = {own['n']}"
            for group, own in facts.get("correlations", {}).items()
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise unreadable(file, error) from None
    wanted = request(name, out=NOWHERE, rows=list(rows), seeds=seeds, quick=quick, settings=settings, saved=file)
    found = [line for line in outcome(wanted, {}) if line.item.name in rows or line.trained is not None]
    lines = [_line(line, rows[line.item.name]) if line.item.name in rows else line for line in found]
    origins = joined_origins(str(row["origin"]) for row in rows.values() if row.get("origin"))
    return Saved(wanted, lines, origins, notes)


def _line(line: Line, row: Mapping[str, Any]) -> Line:
    """Files of earlier versions have the means of some rows and not their seeds: those stay as they are.

    Their deviation was divided by one seed less than published ones are, so it is left out.
    """
    if line.trained is not None or not row["ours"]:
        return replace(line, state=str(row["state"]))
    ours = {name: _interval(own) for name, own in row["ours"].items() if name != DEVIATION}
    return replace(line, ours=ours, paired=_paired(row["paired"]) if row["paired"] else None, state="")


def _paired(stored: Mapping[str, Any]) -> Paired:
    """Without its seeds a comparison has a description and no verdict."""
    mean = _interval(stored["difference"])
    shift = Shift(mean.mean, -math.inf, math.inf, 0.95, mean.seeds)
    sentence = wording.few_seeds(shift, mean, 1)
    return Paired(
        shift, mean, float(stored["t_test"]), float(stored["wilcoxon"]), None, 0, None, None, "open", sentence
    )


def _interval(stored: Mapping[str, Any]) -> Interval:
    low, high = (math.inf if stored[end] is None else float(stored[end]) for end in ("low", "high"))
    return Interval(float(stored["mean"]), low if stored["low"] is not None else -math.inf, high, int(stored["seeds"]))
