"""A table of results, as HTML that can be sorted, as CSV and as LaTeX."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gradcast.results.report.markup import Markup, joined, minus, shade, tag
from gradcast.results.report.words import number
from gradcast.results.statistics import Interval

LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "[": "{[}",  # after the end of a row it would be a length, and a star an order
    "*": "{*}",
}
FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes for one, at the start of a text


@dataclass(frozen=True)
class Cell:
    """What is shown, and the numbers behind it: those are sorted by and written to CSV."""

    text: str = ""
    value: float | None = None
    low: float | None = None  # of an interval
    high: float | None = None
    place: int | None = None  # of the row that it names: its colour in the pictures


@dataclass(frozen=True)
class Table:
    """Cells under headings; the first column names the rows."""

    name: str
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def html(self) -> Markup:
        """In a box of its own, which scrolls where it is too narrow; headings are buttons that sort."""
        numeric = [any(row[column].value is not None for row in self.rows) for column in range(len(self.head))]
        head = [
            tag("th", tag("button", title, type="button"), scope="col", class_="number" if own else None)
            for title, own in zip(self.head, numeric, strict=True)
        ]
        body = [tag("tr", _cell("th", row[0]), *(_cell("td", cell) for cell in row[1:])) for row in self.rows]
        table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), aria_label=self.title)
        box = tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=self.title)
        return joined(tag("p", self.title, class_="note"), box)

    def csv(self) -> str:
        """Full numbers; an interval has columns of its own."""
        spread = [any(row[column].low is not None for row in self.rows) for column in range(len(self.head))]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(
            part
            for title, wide in zip(map(_quoted, self.head), spread, strict=True)
            for part in ((title, f"{title} low", f"{title} high") if wide else (title,))
        )
        for row in self.rows:
            writer.writerow(
                part
                for cell, wide in zip(row, spread, strict=True)
                for part in ((_full(cell), *_ends(cell)) if wide else (_full(cell),))
            )
        return text.getvalue()

    def latex(self) -> str:
        """A tabular with the rules of booktabs."""
        head, *rows = [" & ".join(map(_latex, row)) + r" \\" for row in (self.head, *map(_texts, self.rows))]
        lines = [
            f"% {' '.join(self.title.split())}; needs \\usepackage{{booktabs}}",
            f"\\begin{{tabular}}{{l{'r' * (len(self.head) - 1)}}}",
            *(r"\toprule", head, r"\midrule", *rows, r"\bottomrule"),
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"


def estimate(value: Interval | None, scale: float = 1.0, digits: int | None = None, *, signed: bool = False) -> Cell:
    """Mean ± half of the interval; empty where there is none."""
    if value is None:
        return Cell()
    ends = (scale * value.low, scale * value.high) if value.seeds > 1 else (None, None)
    return Cell(number(value, scale, digits, signed=signed), scale * value.mean, *ends)


def figure(value: object, form: str) -> Cell:
    """A plain number in a format; empty where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return Cell()
    large = form.endswith("g") and abs(value) >= 1000  # rather than an exponent
    return Cell(format(value, ",.0f" if large else form), float(value))


def _cell(kind: str, cell: Cell) -> Markup:
    if cell.value is None:
        dot = "" if cell.place is None else tag("i", class_=f"dot {shade(cell.place)}")
        return tag(kind, dot, cell.text, scope="row" if kind == "th" else None)
    mean, _, half = minus(cell.text).partition(" ± ")
    shown = joined(mean, tag("span", f" ± {half}", class_="half")) if half else joined(mean)
    return tag(kind, shown, class_="number", data_value=repr(cell.value))


def _texts(row: Sequence[Cell]) -> list[str]:
    return [cell.text for cell in row]


def _full(cell: Cell) -> str:
    return _quoted(cell.text) if cell.value is None else repr(cell.value)


def _quoted(text: str) -> str:
    """Text that a spreadsheet shows and never computes."""
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text


def _ends(cell: Cell) -> tuple[str, str]:
    return ("" if cell.low is None else repr(cell.low)), ("" if cell.high is None else repr(cell.high))


def _latex(text: str) -> str:
    escaped = "".join(LATEX.get(sign, sign) for sign in " ".join(text.split()))
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", escaped)
