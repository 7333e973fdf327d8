"""Words the tables of docs/results anew from what was measured, and the copies of their rows in docs/*.md.

    python tools/render_results.py

Measured numbers come from the files as they are; only verdicts and words may change. Figures are drawn beside the
tables.
"""

import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from gradcast.reproduce.correlations import clouds
from gradcast.reproduce.draw import draw
from gradcast.reproduce.measured_tables import folder
from gradcast.reproduce.render import Saved, places, read_saved
from gradcast.reproduce.show_table import TRAINED_ON

DOCS = Path(__file__).parents[1] / "docs"
NOT_RUN = "not run"


def main() -> None:
    """All of them."""
    for file in sorted(folder().glob("*.json")):
        page = DOCS / "results" / f"{file.stem}.md"
        saved = read_saved(file)
        after = saved.markdown()
        if page.exists():
            replace_lines(copied(page.read_text(encoding="utf-8")), copied(after))
        page.write_text(after, encoding="utf-8")
        picture(saved, page.with_suffix(".png"))


def picture(saved: Saved, file: Path) -> None:
    """The table's figure, where it has one."""
    with TemporaryDirectory() as place:
        made = draw(saved.wanted, saved.lines, clouds(saved.wanted, saved.lines), Path(place))
        for own in made[:1]:
            shutil.copy(own, file)


def copied(page: str) -> list[str]:
    """What other pages show of it: lines of its table, and where it was measured, without the commits."""
    *lines, last = page.splitlines()
    table = [line for line in lines if line.startswith("|")]
    return [*table, f"{places(last.removeprefix(TRAINED_ON).removesuffix('.'))}."]


def replace_lines(before: list[str], after: list[str]) -> None:
    """Lines of the page that another page shows too; rows with their first numbers follow the row before them."""
    for page in DOCS.glob("*.md"):
        lines = page.read_text(encoding="utf-8").splitlines()
        page.write_text("\n".join(_changed(lines, _followed(lines, before, after))) + "\n", encoding="utf-8")


def _followed(lines: list[str], before: list[str], after: list[str]) -> dict[str, str]:
    """What takes the place of each line of before; a page need not show all rows."""
    names, known = {_row(line): line for line in before[2:-1]}, dict(zip(before[:2], after[:2], strict=True))
    own = before[1]
    for line in after[2:-1]:
        earlier = names.get(_row(line), "")
        if earlier and earlier in lines:
            own = earlier
            known[own] = line
        elif NOT_RUN not in line and (not earlier or NOT_RUN in earlier):
            known[own] += f"\n{line}"
    return known | {before[-1]: after[-1]}


def _row(line: str) -> str:
    """A row's name, without how many seeds it has."""
    return re.sub(r" \(\d+ of \d+ seeds\)$", "", line.split("|")[1].strip()) if line.startswith("|") else ""


def _changed(lines: list[str], known: dict[str, str]) -> list[str]:
    """Several tables have the same head and rule, and come from the same machine: those of its own rows change."""
    (head, rule, *rows, measured), found = known, []
    for place, line in enumerate(lines):
        above = next((own for own in reversed(lines[:place]) if own.startswith("|")), "")
        below = next((own for own in lines[place:] if not own.startswith(("|  |", "| --- "))), "")
        own = {head: below, rule: below, measured: above}.get(line, line)
        found.append(known[line] if own in rows else line)
    return found


if __name__ == "__main__":
    main()
