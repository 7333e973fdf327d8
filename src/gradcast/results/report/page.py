"""The page: one file that needs nothing else, asks nobody for anything, and runs no script but its own."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from gradcast.results.report.across import NAME as ALL_RUNS
from gradcast.results.report.across import across
from gradcast.results.report.blocks import Block, Fold, Gallery, Section
from gradcast.results.report.inline import inline
from gradcast.results.report.markup import Markup, joined, shades, tag
from gradcast.results.report.overview import overview
from gradcast.results.report.read import Found, Run
from gradcast.results.report.summary import counts, facts, heading
from gradcast.results.report.tables import Table


def page(found: Found, content: Sequence[Sequence[Section]], every: int | None = None) -> str:
    """The report of these runs with their sections; with ``every``, it shows itself anew after so many seconds."""
    title, runs = heading(found), found.runs
    names = [f"run-{index + 1}" for index in range(len(runs))]
    parts = [_run(*own, links=len(runs) > 1) for own in zip(runs, names, content, strict=True)]
    body = joined(
        _bar(runs, names, content),
        tag("main", _header(title, runs, every), overview(found, names), *_across(runs), *parts),
        tag("footer", tag("p", "Made by gradcast from the files of its runs alone.")),
    )
    return document(title, body, every)


def document(title: str, body: Markup, every: int | None = None) -> str:
    """A whole page around its body, with style, script and the rule that nothing else is loaded."""
    style, script = _resource("style.css") + shades(), _resource("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    refresh = [] if every is None else [f'<meta http-equiv="refresh" content="{every}">']
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        *refresh,
        tag("title", title),
        f"<style>{style}</style>",
    ]
    lines = ["<!doctype html>", '<html lang="en">', "<head>", *head, "</head>", "<body>", body]
    return "\n".join([*lines, f"<script>{script}</script>", "</body>", "</html>", ""])


def _bar(runs: Sequence[Run], names: Sequence[str], content: Sequence[Sequence[Section]]) -> Markup:
    """Links to all parts: the sections of a single run, else the runs."""
    single = [(f"{names[0]}-{section.name}", section.title) for section in content[0]] if len(runs) == 1 else []
    links = single or [(ALL_RUNS, "All runs"), *((name, run.name) for run, name in zip(runs, names, strict=True))]
    items = [tag("a", text, href=f"#{name}") for name, text in [("summary", "Summary"), *links]]
    switch = tag("button", "◐", type="button", id="theme", aria_label="Switch between light and dark")
    return tag("nav", tag("div", *items, class_="links"), switch, aria_label="Contents")


def _header(title: str, runs: Sequence[Run], every: int | None) -> Markup:
    live = tag("p", f"Live: this page shows itself anew every {every} seconds.", class_="live") if every else ""
    return tag("header", tag("h1", title), tag("p", counts(runs), class_="lead"), live)


def _run(run: Run, name: str, content: Sequence[Section], *, links: bool) -> Markup:
    chips = tag("ul", *(tag("li", fact) for fact in facts(run)), class_="facts")
    inside = [tag("a", section.title, href=f"#{name}-{section.name}") for section in content if links]
    head = [tag("h2", run.name), chips, tag("p", *inside, class_="links") if inside else ""]
    return tag("section", *head, *(section_markup(section, name) for section in content), id=name, class_="run")


def _across(runs: Sequence[Run]) -> list[Markup]:
    """What several runs have beside each other."""
    section = across(runs)
    if section is None:
        return []
    blocks = [_block(block, section.name) for block in section.blocks]
    return [tag("section", tag("h2", section.title), *blocks, id=section.name, class_="run")]


def section_markup(section: Section, name: str) -> Markup:
    """A section of a run; ``name`` is the run's on this page."""
    blocks = [_block(block, name) for block in section.blocks]
    return tag("section", tag("h3", section.title), *blocks, id=f"{name}-{section.name}")


def _block(block: Block, name: str) -> Markup:
    match block:
        case Table():
            return block.html()
        case Gallery():
            pictures = [tag("div", inline(own.svg, f"{name}-{own.name}", own.alt)) for own in block.pictures]
            gallery = tag("div", *pictures, class_=f"gallery {block.shape}")
            return tag("figure", gallery, tag("figcaption", block.caption))
        case Fold():
            return tag("details", tag("summary", block.title), tag("pre", block.text))
        case _:
            return tag("p", block, class_="note")


def _resource(name: str) -> str:
    return files("gradcast.results.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What allows exactly this text in the page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
