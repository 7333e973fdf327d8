"""What a report is made of, before it is a page or files: sections of words, tables and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from gradcast.figures import style
from gradcast.report.tables import Table

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
