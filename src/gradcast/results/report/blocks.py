"""What a report is made of, before it is a page or files: sections of words, tables and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from gradcast.results.figures import style
from gradcast.results.report.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """A figure with the name of its files and what it shows in words."""

    name: str
    alt: str
    figure: "Figure"

    @cached_property
    def svg(self) -> str:
        """Drawn once, for the page and for its file."""
        return style.svg(self.figure)


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side, as many as the page has room for."""

    caption: str
    pictures: Sequence[Picture]
    shape: Literal["small", "wide", "single"] = "small"


@dataclass(frozen=True)
class Fold:
    """Text that is shown when asked for."""

    title: str
    text: str


Block = str | Table | Gallery | Fold


@dataclass(frozen=True)
class Section:
    """A part of a run's report."""

    name: str
    title: str
    blocks: Sequence[Block]

    def marked(self, words: str) -> "Section":
        """The same with these words on every table and picture, which are files of their own too."""
        return replace(self, blocks=[_marked(block, words) for block in self.blocks]) if words else self


def _marked(block: Block, words: str) -> Block:
    if isinstance(block, Gallery):
        for picture in block.pictures:
            style.stamp(picture.figure, words)
    elif isinstance(block, Table):
        first, *others = block.head
        return replace(block, title=f"{words}: {block.title}", head=[f"{first} ({words})", *others])
    return block
