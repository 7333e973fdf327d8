"""The documentation site has every page, and nothing from other hosts. ``make docs`` installs what builds it."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def pages(entries: object) -> list[str]:
    """The pages of a part of the navigation, however deep."""
    if isinstance(entries, str):
        return [entries]
    parts = entries.values() if isinstance(entries, dict) else entries
    return [page for part in parts for page in pages(part)]  # type: ignore[attr-defined]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(listed) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_the_sections_of_the_site() -> None:
    sections = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"][1:]
    named = [name for section in sections for name in section]
    assert named == ["Tutorials", "How-to", "Reference", "Explanation", "Results", "Benchmarks"]


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="the extra docs is not installed: make docs")
def test_the_site_builds_without_a_warning_or_another_host(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    loaded = r"<(?:script|link|img|iframe)[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^\s>]*"
    made = list(tmp_path.rglob("*.html"))
    assert len(made) > 90
    for page in made:
        assert re.findall(loaded, page.read_text(encoding="utf-8")) == [], page.name
    assert [own for own in tmp_path.rglob("*.css") if re.search(r"url\([\"']?https?:", own.read_text())] == []
    assert (tmp_path / "repository" / "examples" / "own_learner.py").is_file()
