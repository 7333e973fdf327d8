"""An experiment's outcome as a table: in Markdown, CSV, LaTeX and JSON."""

from collections.abc import Sequence
from pathlib import Path

from gradcast.reproduce.correlations import Clouds, as_dict, in_words
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.reproduce import RESULT, Request
from gradcast.reproduce.table_notes import notes
from gradcast.reproduce.trained import DEVIATION, MEASURES, PER_IMAGE, UNKNOWN, joined_origins
from gradcast.results.quick import QUICK_LOOK
from gradcast.results.report.read import TABLE
from gradcast.results.report.tables import Cell, Table, estimate
from gradcast.results.report.words import signed_points
from gradcast.runs.jsontext import to_json
from gradcast.runs.safe_files import write_text

TITLES = {
    "acc": "ACC (%)",
    UNKNOWN: "ACC, task unknown (%)",
    DEVIATION: "std of ACC",
    "bwt": "BWT",
    "fwt": "FWT",
    "milliseconds": "ms an image",
    "growth": "ms more each task",
    PER_IMAGE: "MB an image",
    "error": "best error (%)",
}
TRAINED_ON = "Trained on "  # device, version, day and commit of every machine
DIGITS = dict.fromkeys(TITLES, 2) | {"bwt": 4, "fwt": 4, "milliseconds": 3, "growth": 4, PER_IMAGE: 1}


def heading(wanted: Request, seeds: int | None = None) -> str:
    """What this is, and how much it can be trusted; some of it may have fewer ``seeds``."""
    header, seeds = wanted.experiment.header, seeds or len(wanted.seeds)
    quick = f"{QUICK_LOOK}: short streams, small networks where they are slow. " if wanted.quick else ""
    changed = f" with {', '.join(wanted.settings)}" if wanted.settings else ""
    return (
        f"{quick}{header.id}, {header.title}{changed}: {seeds} seed{'s' if seeds > 1 else ''}, {wanted.dtype}, "
        "mean ± 95 % confidence interval"
    )


def about(wanted: Request) -> str:
    """What there is to know of the table; where something was changed, it may not be so here."""
    own = wanted.experiment.header.about
    return f"The table unchanged: {own}" if wanted.quick or wanted.settings else own


def label(line: Line, wanted: Request) -> str:
    """A row's name, and what is special about it."""
    seeds = line.ours["acc"].seeds if line.ours else 0
    notes = ["from scratch"] if line.item.pretrained and not line.published else []
    notes += [f"{seeds} of {len(wanted.seeds)} seeds"] if 0 < seeds < len(wanted.seeds) else []
    notes += [] if line.trained is None or not line.trained.diverged else [f"{len(line.trained.diverged)} diverged"]
    return line.item.label + (f" ({', '.join(notes)})" if notes else "")


def difference(line: Line) -> str:
    """Ours against the row it is compared with."""
    return signed_points(line.paired)


def gain(line: Line) -> str:
    """The published gain, with its sign."""
    return "" if line.published_gain is None else f"{line.published_gain:+.2f}"


def noise(line: Line) -> str:
    """Whether the published gain is within what single runs differ by."""
    words = {
        "pairs": "within the noise of pairs",
        "seeds": "within the noise of seeds",
        "beyond": "beyond the noise of single runs",
    }
    return "" if line.noise is None else words[line.noise]


def table(wanted: Request, found: Sequence[Line]) -> Table:
    """Every measure, published and ours, and the gain over the row each is compared with.

    Where nothing was published, ours alone.
    """
    measures = [name for name in TITLES if _shown(name, found, wanted)] or ["acc"]
    columns = [f"{TITLES[name]} {whose}" for name in measures for whose in ("published", "ours")]
    head = [QUICK_LOOK if wanted.quick else "", *columns, "gain published", "gain ours", "published gain is", "verdict"]
    rows = [_row(line, measures, label(line, wanted)) for line in found]
    if not wanted.experiment.published:
        kept = [place for place, title in enumerate(head) if "published" not in title]
        head = [head[place].removesuffix(" ours") for place in kept]
        rows = [[row[place] for place in kept] for row in rows]
    return Table("table", heading(wanted), head, rows)


def markdown(own: Table, about: str, origins: str = "", notes: Sequence[str] = ()) -> str:
    """A heading, what to know, the table, what else was found, and where its numbers come from."""
    rows = [[cell.text for cell in row] for row in own.rows]
    escaped = [[text.replace("|", "\\|") for text in row] for row in (own.head, ["---"] * len(own.head), *rows)]
    lines = [f"# {own.title}", "", about, "", *(f"| {' | '.join(row)} |" for row in escaped)]
    lines += [line for note in notes for line in ("", f"{note}.")]
    return "\n".join([*lines, *(["", f"{TRAINED_ON}{origins}."] if origins else [])]) + "\n"


def save(wanted: Request, found: Sequence[Line], groups: Clouds | None = None) -> Path:
    """The table and its numbers in the experiment's folder, and the correlation of each group of rows."""
    place, own = wanted.folder, table(wanted, found)
    place.mkdir(parents=True, exist_ok=True)
    facts = {
        "id": wanted.experiment.header.id,
        "quick": wanted.quick,
        "settings": wanted.settings,
        "dtype": wanted.dtype,
        "seeds": wanted.seeds,
        "rows": [line.as_dict() for line in found],
        **({"correlations": as_dict(groups)} if groups else {}),
    }
    write_text(place / RESULT, to_json(facts))
    origins = joined_origins(line.origin for line in found if line.origin)
    below = [*notes(wanted, found), *in_words(groups or {})]
    write_text(place / TABLE, markdown(own, about(wanted), origins, below))
    write_text(place / "table.csv", own.csv())
    write_text(place / "table.tex", own.latex())
    return place


def _shown(name: str, found: Sequence[Line], wanted: Request) -> bool:
    """Published measures, and the usual ones where we have them; how time grows, where time is published."""
    if name == UNKNOWN and wanted.experiment.header.task == "known":
        return False
    published = {measure for line in found for measure in line.item.published or {}}
    usual = {*MEASURES, UNKNOWN, *({"growth"} if "milliseconds" in published else ())}
    return name in published or (name in usual and any(name in line.ours for line in found))


def unknown(line: Line, measure: str) -> str:
    """Why a row with numbers lacks a measure: without its seeds a deviation cannot be told."""
    return "seeds not stored" if measure == DEVIATION and line.ours and line.trained is None else ""


def _row(line: Line, measures: Sequence[str], name_of_row: str) -> list[Cell]:
    cells = [Cell(name_of_row)]
    for name in measures:
        value = line.published.get(name)
        cells.append(Cell() if value is None else Cell(f"{value:.{DIGITS[name]}f}", value))
        lacking = unknown(line, name)
        cells.append(Cell(lacking) if lacking else estimate(line.ours.get(name), digits=DIGITS[name]))
    if not line.ours:
        cells[2] = Cell(line.state)
    paired = None if line.paired is None else line.paired.difference
    ends = (None, None) if paired is None or paired.seeds < 2 else (paired.low, paired.high)
    ours = Cell() if paired is None else Cell(difference(line), paired.mean, *ends)
    verdict = Cell("" if line.paired is None else line.paired.verdict)
    return [*cells, Cell(gain(line), line.published_gain), ours, Cell(noise(line)), verdict]
