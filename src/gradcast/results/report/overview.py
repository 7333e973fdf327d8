"""The summary on top of the page: verdicts first, each with its interval on a common scale and the row's accuracy."""

import math
from collections.abc import Sequence
from pathlib import Path

from gradcast.results.advice import advice
from gradcast.results.report.markup import Markup, minus, tag
from gradcast.results.report.read import Found, Run
from gradcast.results.report.summary import Finding, findings, headline_measure, standing
from gradcast.results.result import RowResult
from gradcast.results.statistics import Interval

WIDTH, HEIGHT, MARGIN = 120, 16, 6


def overview(found: Found, names: Sequence[str]) -> Markup:
    """What all runs say, and what is missing; ``names`` are the runs' anchors."""
    title = tag("h3", "Missing from this report")
    box = tag("div", title, _list(found.damage), class_="damage") if found.damage else ""
    linked = len(found.runs) > 1
    parts = [_said(run, name if linked else None) for run, name in zip(found.runs, names, strict=True)]
    return tag("section", tag("h2", "Summary"), box, *parts, id="summary")


def _said(run: Run, name: str | None) -> Markup:
    title = tag("h3", tag("a", run.name, href=f"#{name}")) if name else ""
    own = tag("p", run.spec.title, class_="lead") if name and run.spec.title else ""
    found = findings(run)
    drawn = [finding.difference for finding in found if finding.difference is not None]
    span = _rounded(max((max(abs(end) for end in _ends(own)) for own in drawn), default=0.0))
    base = [] if run.base is None or not drawn else [_base(run.base, span)]
    lead = "" if not base else _lead(run)
    advised = None if run.unfinished else advice(run.spec, run.results, Path(run.name))
    return tag(
        "div",
        title,
        own,
        tag("p", lead, class_="note") if lead else "",
        tag("ul", *base, *(_finding(finding, span) for finding in found), class_="verdicts"),
        tag("p", advised, class_="advice") if advised else "",
        tag("p", "Not finished yet", class_="note") if run.unfinished else "",
        _list([f"{row.label}: {standing(row)}" for row in run.unfinished]),
    )


def _lead(run: Run) -> str:
    """How to read the lines below."""
    what = "accuracy" if run.few_labels else "ACC"
    shown, _ = headline_measure(run.results[0])
    paired = f"over {len(run.spec.seeds)} paired seeds, with its interval"
    return f"On the left: {what} minus that of {run.spec.rows[0].label}, in points, {paired}. On the right: {shown}."


def _base(own: RowResult, span: float) -> Markup:
    """The row that the others are compared with, beside the scale of the differences."""
    words = tag("span", tag("strong", own.label), " ", tag("span", "base", class_="said"), class_="words")
    return tag("li", _scale(span), words, _value(headline_measure(own)[1]), class_="open")


def _finding(found: Finding, span: float) -> Markup:
    glyph = "" if found.difference is None else _glyph(found.difference, span)
    label = tag("strong", found.label) if found.label else ""
    said = tag("span", minus(found.sentence), class_="said")
    words = tag("span", label, " " if label else "", said, class_="words")
    return tag("li", glyph, words, _value(found.value), class_=found.kind.replace(" ", "-"))


def _value(text: str) -> str:
    """The mean, and its interval in a softer colour."""
    mean, _, half = minus(text).partition(" ± ")
    return tag("span", mean, tag("span", f" ± {half}", class_="half") if half else "", class_="value") if text else ""


def _scale(span: float) -> Markup:
    """Zero, and how far the ends are from it."""
    ends = {-span: f"−{span:g}", 0.0: "0", span: f"+{span:g}"}
    base = str(HEIGHT - 1)
    axis = tag("line", x1=_across(-span, span), x2=_across(span, span), y1=base, y2=base, class_="zero")
    ticks = [tag("line", x1=_across(at, span), x2=_across(at, span), y1="12", y2=base, class_="zero") for at in ends]
    words = [tag("text", text, x=_across(at, span), y="8", text_anchor="middle") for at, text in ends.items()]
    return tag("svg", axis, *ticks, *words, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label="Scale in points")


def _glyph(difference: Interval, span: float) -> Markup:
    """Zero in the middle, the interval and its mean; the words beside it say the same."""
    low, high = _ends(difference)
    middle, zero = str(HEIGHT // 2), _across(0, span)
    line = tag("line", x1=zero, x2=zero, y1="-8", y2=str(HEIGHT + 8), class_="zero")  # from one row to the next
    bar = tag("line", x1=_across(low, span), x2=_across(high, span), y1=middle, y2=middle, class_="bar")
    mean = tag("circle", cx=_across(difference.mean, span), cy=middle, r="4")
    return tag("svg", line, bar, mean, viewBox=f"0 0 {WIDTH} {HEIGHT}", aria_hidden="true")


def _across(points: float, span: float) -> str:
    """Where so many points lie: zero in the middle, the span at the ends."""
    return f"{WIDTH / 2 + points / span * (WIDTH / 2 - MARGIN):.1f}"


def _rounded(span: float) -> float:
    """The next number of one digit: a scale that can be read."""
    if span == 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span))
    return next(step * power for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * power >= span * (1 - 1e-9))


def _ends(difference: Interval) -> tuple[float, float]:
    """Of the interval; a single seed has none."""
    return (difference.low, difference.high) if difference.seeds > 1 else (difference.mean, difference.mean)


def _list(sentences: Sequence[str]) -> str:
    return tag("ul", *(tag("li", sentence) for sentence in sentences)) if sentences else ""
