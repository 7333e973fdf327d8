"""How all pictures look, and their way into files.

Rows have colours that people with any kind of colour vision tell apart, of a lightness that shows on white and on
black, and each a mark of its own.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradcast.runs.safe_files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#24292f"  # text, axes and the first row; the page's own colour where a picture is part of a page
COLOURS = ("#1b7fc3", "#d55e00", "#009e73", "#b8659a", "#a87800", "#7d7d7d")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
SETTINGS: dict[Any, Any] = {
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "gradcast",  # the same picture is the same bytes
}


@contextmanager
def styled() -> Iterator[None]:
    """Matplotlib draws our way meanwhile; also a decorator."""
    import matplotlib  # here, not above: half a second of start-up

    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")  # a label may use any script
        yield


def colour(place: int) -> str:
    """Of the row at this place of the specification; the first is the base and has the ink."""
    return INK if place == 0 else COLOURS[(place - 1) % len(COLOURS)]


def mark(place: int) -> str:
    """Of the row at this place of the specification."""
    return MARKS[place % len(MARKS)]


def plain(label: str, width: int = 44) -> str:
    """A label for a picture: one line, nothing unprintable, not too long."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in label).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def legend(figure: "Figure", columns: int) -> None:
    """One for all axes, each row once."""
    handles = {text: line for axis in figure.axes for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    made = figure.legend(
        handles.values(), handles.keys(), loc="outside lower left", ncols=columns, fontsize=8, handlelength=2.6
    )
    for text in made.get_texts():
        text.set_parse_math(False)


def stamp(figure: "Figure", words: str) -> None:
    """Words in the upper right corner, where there are any: what the picture is not."""
    if words:
        figure.suptitle(words, x=0.99, ha="right", fontsize=8, color=INK)


@styled()
def save_png(figure: "Figure", path: Path) -> None:
    """On white, the same bytes each time."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=160, facecolor="white", metadata={"Software": "gradcast"})
    write_bytes(path, content.getvalue())


@styled()
def svg(figure: "Figure") -> str:
    """Without background, the same text each time."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": "gradcast"})
    figure.set_layout_engine("none")  # everything has its place now: finding it takes half of the time
    return text.getvalue()
