"""Links of the documentation lead somewhere, and its commands exist with the options it names."""

import re
from pathlib import Path

import pytest
from tools.render_commands import commands

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


def test_every_command_of_the_documentation_exists_with_its_options() -> None:
    known = {name: {option for own in one.params for option in own.opts} for name, one in commands()}
    found = [(page, line) for page in PAGES for line in gradcast_lines(page)]
    assert len(found) > 100
    for page, line in found:
        words = line.split()
        name = next((own for own in (" ".join(words[:2]), words[0]) if own in known), None)
        assert name is not None, f"{page.name}: gradcast {line}"
        asked = {word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", word)}
        assert asked <= known[name] | {"--help"}, f"{page.name}: gradcast {line}"


def gradcast_lines(page: Path) -> list[str]:
    """What stands behind gradcast in blocks of a console, without remarks and further commands."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [
        re.split(r" #| [|>&]", own)[0] for line in lines for own in re.findall(r"^\$ (?:\w+=\S+ )*gradcast (.*)", line)
    ]
