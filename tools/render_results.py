"""Words the tables of docs/results anew from their JSON, and the copies of their rows in docs/*.md.

    python tools/render_results.py

Measured numbers come from the files as they are; only verdicts and words may change.
"""

from pathlib import Path

from gradcast.reproduce.render import render

DOCS = Path(__file__).parents[1] / "docs"
OTHER_FILES = ("E6-courses", "icifar100", "mnist")  # of no table


def main() -> None:
    """All of them."""
    for file in sorted((DOCS / "results").glob("*.json")):
        if not file.name.startswith(OTHER_FILES):
            before = file.with_suffix(".md").read_text(encoding="utf-8")
            after = render(file).read_text(encoding="utf-8")
            replace_rows(rows(before), rows(after))


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
