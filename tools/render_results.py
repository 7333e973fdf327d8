"""Words the tables of docs/results anew from what was measured, and the copies of their rows in docs/*.md.

    python tools/render_results.py

Measured numbers come from the files as they are; only verdicts and words may change.
"""

from pathlib import Path

from gradcast.reproduce.measured_tables import folder
from gradcast.reproduce.render import read_saved

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    """All of them."""
    for file in sorted(folder().glob("*.json")):
        page = DOCS / "results" / f"{file.stem}.md"
        after = read_saved(file).markdown()
        if page.exists():
            replace_rows(rows(page.read_text(encoding="utf-8")), rows(after))
        page.write_text(after, encoding="utf-8")


def rows(page: str) -> list[str]:
    """Lines of its table."""
    return [line for line in page.splitlines() if line.startswith("|")]


def replace_rows(before: list[str], after: list[str]) -> None:
    """Rows of the page that another page shows too."""
    known = dict(zip(before, after, strict=True))
    for page in DOCS.glob("*.md"):
        lines = page.read_text(encoding="utf-8").splitlines()
        page.write_text("\n".join(_changed(lines, known)) + "\n", encoding="utf-8")


def _changed(lines: list[str], known: dict[str, str]) -> list[str]:
    """Head and rule of a table follow its first row: several tables share them."""
    found = [known.get(line, line) for line in lines]
    for place in range(2, len(lines)):
        if lines[place] in known and not lines[place].startswith(("| --- ", "|  | ")):
            head = next(at for at in range(place, -1, -1) if lines[at].startswith("| --- "))
            found[head - 1], found[head] = list(known.values())[:2]
    return found


if __name__ == "__main__":
    main()
