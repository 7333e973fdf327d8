"""Writes the settings of every learner into its page under docs/learners, from the code.

python tools/render_settings.py
"""

import re
from pathlib import Path

from gradcast.learners.registry import LEARNERS
from gradcast.specs.settings_list import settings_of

DOCS = Path(__file__).parents[1] / "docs"
HEADING = "## Settings\n"


def main() -> None:
    """All pages that the index names."""
    for page, names in pages().items():
        before = page.read_text(encoding="utf-8").partition(HEADING)[0]
        page.write_text(before + rendered(names), encoding="utf-8")


def pages() -> dict[Path, list[str]]:
    """The learners of each page, as docs/learners.md lists them."""
    index = (DOCS / "learners.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(.*?)\]\((.*?)\)", index, flags=re.MULTILINE)
    return {DOCS / page: re.findall(r"`([^`]+)`", names) for names, page in rows}


def rendered(names: list[str]) -> str:
    """The last section of a page: a table for each learner."""
    parts = [HEADING]
    for name in names:
        entry = LEARNERS[name]
        parts.append(f'`learner.name = "{name}"`. Cost: {_marked(entry.cost)}.')
        lines = ["| setting | default | meaning |", "|---|---|---|"]
        for line in settings_of(entry.table):
            lines.append(f"| `{line.name}` | {_code(line.default)} | {_marked(line.meaning)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _code(default: str) -> str:
    return f"`{default}`" if default else "must be given"


def _marked(comment: str) -> str:
    """A comment of the source as Markdown has it."""
    return comment.replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    main()
