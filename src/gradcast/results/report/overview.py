"""The summary on top of the page: verdicts first, each with its interval drawn small."""

from collections.abc import Sequence
from pathlib import Path

from gradcast.results.advice import advice
from gradcast.results.report.markup import Markup, minus, tag
from gradcast.results.report.read import Found, Run
from gradcast.results.report.summary import Finding, findings, standing
from gradcast.results.statistics import Interval

WIDTH, HEIGHT = 120, 16


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
    what = "Accuracy" if run.few_labels else "ACC"
    lead = f"{what} against {run.spec.rows[0].label}, over {len(run.spec.seeds)} paired seeds" if drawn else ""
    span = max((max(abs(end) for end in _ends(own)) for own in drawn), default=0.0) or 1.0
    advised = None if run.unfinished else advice(run.spec, run.results, Path(run.name))
    return tag(
        "div",
        title,
        own,
        tag("p", lead, class_="note") if lead else "",
        tag("ul", *(_finding(finding, span) for finding in found), class_="verdicts"),
        tag("p", advised, class_="advice") if advised else "",
        tag("p", "Not finished yet", class_="note") if run.unfinished else "",
        _list([f"{row.label}: {standing(row)}" for row in run.unfinished]),
    )


def _finding(found: Finding, span: float) -> Markup:
    glyph = "" if found.difference is None else _glyph(found.difference, span)
    label = tag("strong", found.label) if found.label else ""
    words = tag("span", label, " " if label else "", tag("span", minus(found.sentence), class_="said"))
    return tag("li", glyph, words, class_=found.kind.replace(" ", "-"))


def _glyph(difference: Interval, span: float) -> Markup:
    """Zero in the middle, the interval and its mean; the words beside it say the same."""

    def across(points: float) -> str:
        return f"{WIDTH / 2 + points / span * (WIDTH / 2 - 6):.1f}"

    low, high = _ends(difference)
    middle = str(HEIGHT // 2)
    zero = tag("line", x1=across(0), x2=across(0), y1="0", y2=str(HEIGHT), class_="zero")
    bar = tag("line", x1=across(low), x2=across(high), y1=middle, y2=middle, class_="bar")
    mean = tag("circle", cx=across(difference.mean), cy=middle, r="4")
    return tag("svg", zero, bar, mean, viewBox=f"0 0 {WIDTH} {HEIGHT}", aria_hidden="true")


def _ends(difference: Interval) -> tuple[float, float]:
    """Of the interval; a single seed has none."""
    return (difference.low, difference.high) if difference.seeds > 1 else (difference.mean, difference.mean)


def _list(sentences: Sequence[str]) -> str:
    return tag("ul", *(tag("li", sentence) for sentence in sentences)) if sentences else ""
