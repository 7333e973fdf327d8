"""An experiment's outcome as text and files: the table in words, Markdown and JSON."""

from collections.abc import Sequence
from pathlib import Path

from gradcast.experiments.outcome import MEASURES, Line
from gradcast.experiments.reproduce import Request
from gradcast.statistics import Interval
from gradcast.store import to_json, write_text

DIGITS = {"acc": 2, "bwt": 4, "fwt": 4, "milliseconds": 3, "megabytes": 0}
TITLES = {"acc": "ACC (%)", "bwt": "BWT", "fwt": "FWT", "milliseconds": "ms an image", "megabytes": "MB"}


def heading(wanted: Request) -> str:
    """What this is, and how much it can be trusted."""
    header, seeds = wanted.experiment.header, len(wanted.seeds)
    quick = "QUICK LOOK, not a result: short streams. " if wanted.quick else ""
    return (
        f"{quick}{header.id}, {header.title}: {seeds} seed{'s' if seeds > 1 else ''}, {wanted.dtype}, "
        "mean ± 95 % confidence interval"
    )


def figure(value: Interval, digits: int) -> str:
    """A mean and, of several seeds, half of its interval."""
    mean = f"{value.mean:.{digits}f}"
    return mean if value.seeds < 2 else f"{mean} ± {value.half:.{digits}f}"


def difference(line: Line) -> str:
    """Ours against the row it is compared with."""
    if line.paired is None:
        return ""
    found = line.paired.difference
    return f"{found.mean:+.2f}" if found.seeds < 2 else f"{found.mean:+.2f} ± {found.half:.2f}"


def noise(line: Line) -> str:
    """Whether the published gain is within what single runs differ by."""
    return {None: "", True: "noise", False: "beyond noise"}[line.inside_noise]


def save(wanted: Request, found: Sequence[Line]) -> Path:
    """Table and numbers in the experiment's folder."""
    place = wanted.folder
    place.mkdir(parents=True, exist_ok=True)
    facts = {
        "id": wanted.experiment.header.id,
        "quick": wanted.quick,
        "dtype": wanted.dtype,
        "seeds": wanted.seeds,
        "rows": [line.as_dict() for line in found],
    }
    write_text(place / "result.json", to_json(facts))
    write_text(place / "table.md", markdown(wanted, found))
    return place


def markdown(wanted: Request, found: Sequence[Line]) -> str:
    """The whole table, every measure published and ours."""
    measures = [name for name in TITLES if _shown(name, found)]
    head = ["", *(f"{TITLES[name]} {whose}" for name in measures for whose in ("published", "ours"))]
    head += ["gain published", "gain ours", "published gain is"]
    rows = [_row(line, measures) for line in found]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join([f"# {heading(wanted)}", "", wanted.experiment.header.about, "", *lines]) + "\n"


def _shown(name: str, found: Sequence[Line]) -> bool:
    """Published measures, and the usual ones."""
    return name in MEASURES or any(name in (line.item.published or {}) for line in found)


def _row(line: Line, measures: Sequence[str]) -> list[str]:
    published = line.item.published or {}
    cells = []
    for name in measures:
        cells.append(f"{published[name]:.{DIGITS[name]}f}" if name in published else "")
        cells.append(figure(line.ours[name], DIGITS[name]) if name in line.ours else "")
    if not line.ours:
        cells[1] = line.state
    gain = "" if line.published_gain is None else f"{line.published_gain:+.2f}"
    return [line.item.label.replace("|", "\\|"), *cells, gain, difference(line), noise(line)]
