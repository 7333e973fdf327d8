"""The table of results as cells, and as plain text and HTML made of them."""

from collections.abc import Sequence
from textwrap import wrap

from gradcast.results.report.markup import Markup, minus, tag
from gradcast.results.report.words import ERRORS, counted, measured, number, signed_points, without_task
from gradcast.results.result import RowResult

WIDTH = 80
NARROWEST = 12  # letters left to a label, however wide the numbers are


def title(results: Sequence[RowResult]) -> str:
    """What the numbers are."""
    without = "Task unknown: " if results[0].task == "unknown" else ""
    return f"{without}{counted(len(results[0].sample().seeds), 'seed')}, mean ± 95 % confidence interval"


def tables(results: Sequence[RowResult]) -> list[Sequence[RowResult]]:
    """The rows of each table: all of them, and those that were also measured without the task, as such."""
    return [own for own in (results, without_task(results)) if own]


def headings(results: Sequence[RowResult]) -> list[str]:
    """Headings of the numbers; with few labels they are errors."""
    if results[0].tests is not None:
        return [*ERRORS.values(), "gain (points)"]
    return ["ACC (%)", "BWT", "FWT" if results[0].task == "known" else "forgetting", "against base"]


def cells(result: RowResult) -> list[str]:
    """The numbers of a row."""
    against_base = signed_points(result.paired)
    if result.tests is not None:
        return [*(number(*own) for own in measured(result).values()), against_base]
    third = "fwt" if result.task == "known" else "forgetting"
    acc, bwt, other = (result.over_seeds(name) for name in ("acc", "bwt", third))
    return [number(acc, 100), f"{bwt.mean:+.3f}", f"{other.mean:+.3f}", against_base]


def as_text(results: Sequence[RowResult], sentences: Sequence[str]) -> str:
    """Titles, tables and sentences in lines of at most 80 letters; long labels take several lines."""
    shown = [line for own in tables(results) for line in _table(own)]
    return "\n".join([*shown, *(line for sentence in sentences for line in wrap(sentence, WIDTH))])


def _table(results: Sequence[RowResult]) -> list[str]:
    rows = [headings(results), *(cells(result) for result in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    labels = ["", *(result.label for result in results)]
    room = max(WIDTH - sum(widths) - 2 * len(widths), NARROWEST)
    wrapped = [wrap(label, room) or [""] for label in labels]
    first = max(len(line) for lines in wrapped for line in lines)
    shown = [title(results)]
    for (line, *rest), row in zip(wrapped, rows, strict=True):
        numbers = "".join(f"  {cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        shown += [f"{line:<{first}}{numbers}".rstrip(), *rest]
    return shown


def as_html(results: Sequence[RowResult], sentences: Sequence[str]) -> Markup:
    """The same as HTML without scripts, style sheets or links."""
    return tag("div", *map(_html_table, tables(results)), *(tag("p", minus(sentence)) for sentence in sentences))


def _html_table(results: Sequence[RowResult]) -> Markup:
    right = "text-align: right"
    head = tag("tr", tag("th"), *(tag("th", text, style=right) for text in headings(results)))
    body = [
        tag(
            "tr",
            tag("td", result.label, style="text-align: left"),
            *(tag("td", minus(cell), style=right) for cell in cells(result)),
        )
        for result in results
    ]
    return tag("table", tag("caption", title(results)), tag("thead", head), tag("tbody", *body))
