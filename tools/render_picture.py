"""Draws docs/gains.svg, the picture of the README, and writes its words for readers who do not see it.

    python tools/render_picture.py

All numbers come from the measured tables. A row that has not been trained is left out.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor
from pathlib import Path

from gradcast.reproduce.measured_tables import folder
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.render import read_saved

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "gains.svg"
PAGES = {ROOT / "README.md": "docs/gains.svg", ROOT / "docs" / "index.md": "gains.svg"}
SUBJECT = "Accuracy on iCIFAR-100 (%), 20 tasks of 5 classes, mean and 95 % interval"
WIDTH, LEFT, RIGHT, LINE, TOP = 800, 260, 600, 24, 44  # the scale lies between LEFT and RIGHT
GAP = 0.6  # lines between two blocks
TICK = 5  # points of accuracy
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f } .title { font-weight: 600 } .note { fill: #57606a }
.card { fill: #ffffff; stroke: #d0d7de } .grid { stroke: #d0d7de } .end { text-anchor: end }
.middle { text-anchor: middle } .base { stroke: #57606a; fill: #57606a } .more { stroke: #0969da; fill: #0969da }
.bar { stroke-width: 3; stroke-linecap: round }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .note { fill: #9198a1 } .card { fill: #0d1117; stroke: #3d444d } .grid { stroke: #3d444d }
  .base { stroke: #9198a1; fill: #9198a1 } .more { stroke: #4493f8; fill: #4493f8 }
}
"""


@dataclass(frozen=True)
class Block:
    """Rows of one measured table, under a heading."""

    heading: str
    table: str
    rows: tuple[str, ...]

    def lines(self) -> list[Line]:
        """Those of its rows that are trained, in this order."""
        measured = {line.item.name: line for line in read_saved(folder() / f"{self.table}.json").lines}
        return [measured[name] for name in self.rows if "acc" in measured[name].ours]


BLOCKS = (
    Block(
        "The published method",
        "E3",
        ("resnet-gem", "resnet-gem-predicted", "resnet-dcl", "resnet-dcl-predicted"),
    ),
    Block(
        "Head start and signal, averaged weights",
        "P3",
        ("er", "er-signal", "er-head-start", "er-both", "er-pixels", "gem", "gem-head-start", "dcl", "dcl-head-start"),
    ),
)


Drawn = Sequence[tuple[Block, Sequence[Line]]]


def main() -> None:
    """The picture, and its words in every page that shows it."""
    blocks = drawn()
    PICTURE.write_text(picture(blocks), encoding="utf-8")
    for page, target in PAGES.items():
        before, found, after = _shown(page.read_text(encoding="utf-8"), target)
        assert found, f"{page.name} does not show {target}"
        page.write_text(f"{before}![{words(blocks)}]({target}){after}", encoding="utf-8")


def drawn() -> Drawn:
    """All blocks with their trained rows."""
    return [(own, own.lines()) for own in BLOCKS]


def words(blocks: Drawn) -> str:
    """What the picture shows: a sentence a block."""
    parts = (f"{own.heading}: {', '.join(_said(line) for line in lines)}." for own, lines in blocks)
    return f"{SUBJECT}. {' '.join(parts)}"


def picture(blocks: Drawn) -> str:
    """SVG on a background of its own, light or dark as the reader's system is."""
    scale = Scale.over([line for _, lines in blocks for line in lines])
    top, parts = float(TOP), [f'<text class="title" x="20" y="28">{SUBJECT}</text>']
    for own, lines in blocks:
        top += LINE
        seeds = max(line.ours["acc"].seeds for line in lines)
        parts += [f'<text x="20" y="{top:.1f}"><tspan class="title">{own.heading}</tspan>, {seeds} seeds</text>']
        parts += _grid(scale, top + 8, LINE * len(lines))
        for line in lines:
            top += LINE
            parts += _row(line, top, scale)
        top += GAP * LINE
    parts += _axis(scale, top + 6)
    height = top + LINE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">'
    card = f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="8"/>'
    return "\n".join(
        [head, f"<title>{escape(words(blocks))}</title>", f"<style>{STYLE}</style>", card, *parts, "</svg>\n"]
    )


@dataclass(frozen=True)
class Scale:
    """Where an accuracy lies, from left to right."""

    low: int
    high: int

    @classmethod
    def over(cls, lines: Sequence[Line]) -> "Scale":
        """Whole ticks around all intervals."""
        every = [line.ours["acc"] for line in lines]
        return cls(
            TICK * floor(min(own.low for own in every) / TICK), TICK * ceil(max(own.high for own in every) / TICK)
        )

    def ticks(self) -> range:
        """From end to end."""
        return range(self.low, self.high + 1, TICK)

    def __call__(self, accuracy: float) -> float:
        return LEFT + (RIGHT - LEFT) * (accuracy - self.low) / (self.high - self.low)


def _grid(scale: Scale, top: float, height: float) -> Iterator[str]:
    for tick in scale.ticks():
        yield f'<path class="grid" d="M{scale(tick):.1f} {top:.1f}v{height:.1f}"/>'


def _axis(scale: Scale, height: float) -> Iterator[str]:
    for tick in scale.ticks():
        yield f'<text class="note middle" x="{scale(tick):.1f}" y="{height:.1f}">{tick}</text>'
    yield f'<text class="note end" x="{WIDTH - 20}" y="{height:.1f}">paired gain</text>'


def _row(line: Line, height: float, scale: Scale) -> Iterator[str]:
    own, kind = line.ours["acc"], "base" if line.paired is None else "more"
    middle = height - 4.5
    yield f'<text x="36" y="{height:.1f}">{escape(_label(line))}</text>'
    yield f'<path class="bar {kind}" d="M{scale(own.low):.1f} {middle:.1f}H{scale(own.high):.1f}"/>'
    yield f'<circle class="{kind}" cx="{scale(own.mean):.1f}" cy="{middle:.1f}" r="4"/>'
    yield f'<text class="end" x="{RIGHT + 85}" y="{height:.1f}">{own.mean:.1f} ± {own.half:.1f}</text>'
    if line.paired is not None:
        gain = line.paired.difference
        shown = f"{gain.mean:+.1f} ± {gain.half:.1f}".replace("-", "−")
        yield f'<text class="end" x="{WIDTH - 20}" y="{height:.1f}">{shown}</text>'


def _said(line: Line) -> str:
    own = line.ours["acc"]
    return f"{_label(line)} {own.mean:.1f} ± {own.half:.1f}"


def _label(line: Line) -> str:
    """Without the network, which all rows share; the method by its name."""
    return re.sub(r" predicted$", " predicted gradients", line.item.label.removeprefix("ResNet "))


def _shown(text: str, target: str) -> tuple[str, str, str]:
    """A page before the picture, the picture, and the page behind it."""
    found = re.search(rf"!\[[^\]]*\]\({re.escape(target)}\)", text)
    return (text[: found.start()], found[0], text[found.end() :]) if found else (text, "", "")


if __name__ == "__main__":
    main()
