"""Links of the documentation lead somewhere, and the page of claims has the numbers of the measured tables."""

import re
from pathlib import Path

import pytest
from tools import render_claims

from gradcast.reproduce.measured_tables import measured

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


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
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def test_the_page_of_claims_is_that_of_the_measured_tables() -> None:
    assert render_claims.page() == render_claims.PAGE.read_text(encoding="utf-8"), "run python tools/render_claims.py"


def test_a_claim_has_the_verdict_of_its_row_with_seeds_and_comparisons() -> None:
    """By another way than that of the tool."""
    saved = measured("E2")
    assert saved is not None
    (line,) = (line for line in saved.lines if line.item.name == "gem-p-pl")
    assert line.paired is not None
    row = f"| E2 | GEM + P-PL | GEM | -1.77 | 10 | {line.paired.family} | {line.paired.verdict} |"
    section = next(own for own in render_claims.claims() if own.title == "Pseudo labels of a teacher hurt")
    assert row in render_claims.section(section).splitlines()
    unknown = render_claims.section(render_claims.Claim("x", ["E5/acl-predicted"], up=True))
    assert "**Not measured yet.**" in unknown
    assert "$ gradcast reproduce E5 --rows acl-predicted\n" in unknown
