"""The HTML report of a folder of runs, with every picture and table as files beside it."""

from collections.abc import Sequence
from pathlib import Path

from gradcast.errors import GradcastError
from gradcast.results.figures.style import save_png
from gradcast.results.report.across import across
from gradcast.results.report.blocks import Gallery, Section
from gradcast.results.report.page import page
from gradcast.results.report.read import Found
from gradcast.results.report.sections import sections
from gradcast.results.report.tables import Table
from gradcast.runs.safe_files import make_folder, write_text

Content = list[list[Section]]  # the sections of every run


def write_html(found: Found, out: Path) -> None:
    """The page and all its files."""
    content = compose(found)
    write_page(found, content, out)
    write_files(found, content, out)


def compose(found: Found) -> Content:
    """What the report says, before it is written anywhere."""
    return [sections(run) for run in found.runs]


def write_page(found: Found, content: Content, out: Path, every: int | None = None) -> None:
    """The page alone; with ``every``, it shows itself anew after so many seconds."""
    if out.is_dir():
        raise GradcastError(f"{out} is a folder; name a file, as in --out {out / 'report.html'}")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, page(found, content, every))


def write_files(found: Found, content: Content, out: Path) -> None:
    """Pictures as PNG and SVG, tables as CSV and LaTeX."""
    for run, own in zip(found.runs, content, strict=True):
        _write_run(own, files_beside(out) / run.name)
    if (together := across(found.runs)) is not None:
        _write_run([together], files_beside(out) / together.name)


def files_beside(out: Path) -> Path:
    """The folder of a report's pictures and tables."""
    return out.with_name(f"{out.stem}-files")


def _write_run(content: Sequence[Section], folder: Path) -> None:
    make_folder(folder.parent)
    make_folder(folder)
    for block in (block for section in content for block in section.blocks):
        if isinstance(block, Table):
            write_text(folder / f"{block.name}.csv", block.csv())
            write_text(folder / f"{block.name}.tex", block.latex())
        elif isinstance(block, Gallery):
            for picture in block.pictures:
                write_text(folder / f"{picture.name}.svg", picture.svg)
                save_png(picture.figure, folder / f"{picture.name}.png")
