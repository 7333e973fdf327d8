"""The documentation names every learner, and its links lead somewhere."""

import re
from pathlib import Path

import pytest
from tools.render_settings import pages, rendered

from gradcast.learners.registry import LEARNERS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http", "mailto:")):
            continue
        name, _, heading = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), f"{page.name} links to {target}"
        if heading:
            assert heading in headings(file), f"{page.name} links to {target}"


def headings(page: Path) -> set[str]:
    """Anchors of a page's headings, as code hosts make them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def test_every_learner_has_a_page() -> None:
    index = (ROOT / "docs" / "learners.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \[(.*?)\]\((.*?)\)", index, flags=re.MULTILINE))
    named = {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}
    assert named == LEARNERS.own - {"python"}
    assert all((ROOT / "docs" / page).is_file() for page in rows.values())


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_learners_page_lists_the_settings_of_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.endswith(rendered(pages()[page])), "run python tools/render_settings.py"
    assert "|  |\n" not in text, "a setting without a meaning"
