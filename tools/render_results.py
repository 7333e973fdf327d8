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
    """Lines of the page that another page shows too; rows that are new follow the row before them."""
    names, known = [_row(line) for line in before], dict(zip(before[:2], after[:2], strict=True))
    own = before[1]
    for line in after[2:-1]:
        if _row(line) in names:
            own = before[names.index(_row(line))]
            known[own] = line
        elif "not run" not in line:
            known[own] += f"\n{line}"
    known[before[-1]] = after[-1]
    for page in DOCS.glob("*.md"):
        lines = page.read_text(encoding="utf-8").splitlines()
        page.write_text("\n".join(_changed(lines, known)) + "\n", encoding="utf-8")


def _row(line: str) -> str:
    """A row's name, without how many seeds it has."""
    return re.sub(r" \(\d+ of \d+ seeds\)$", "", line.split("|")[1].strip()) if line.startswith("|") else ""


def _changed(lines: list[str], known: dict[str, str]) -> list[str]:
    """Head and rule of a table follow its first row: several tables share them."""
    found = [known.get(line, line) for line in lines]
    for place in range(2, len(lines)):
        if lines[place] in known and not lines[place].startswith(("| --- ", "|  | ")):
            head = next(at for at in range(place, -1, -1) if lines[at].startswith("| --- "))
            found[head - 1], found[head] = list(known.values())[:2]  # head and rule
    return found


if __name__ == "__main__":
    main()
