"""Every block of the tutorials and how-tos that needs no data, network or GPU runs as it is printed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from gradcast.results.report import markdown
from tests.documented_blocks import Block, blocks, command_lines, run_block

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
OTHERS = [DOCS / name for name in ("python.md", "sweeps.md", "head-start.md")]  # whose Python is run, and no command
PAGES = [DOCS / "index.md", *sorted([*(DOCS / "tutorials").glob("*.md"), *(DOCS / "how-to").glob("*.md")])]


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("known_passes")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_the_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for example in (ROOT / "examples").glob("own_*"):
        shutil.copy(example, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(markdown, "save_png", lambda figure, path: path.touch())  # half of the time, tested elsewhere
    names: dict[str, Any] = {"__name__": page.stem}
    found = list(blocks(page))
    assert found, "a page without a block"
    for block in found:
        if not block.skipped:
            run_block(block, names, tmp_path)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_python_of_other_pages_runs_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(markdown, "save_png", lambda figure, path: path.touch())
    names: dict[str, Any] = {"__name__": page.stem}
    found = [block for block in blocks(page) if block.language == "python"]
    assert found
    for block in found:
        run_block(block, names, tmp_path)


def test_blocks_are_found_with_what_their_pages_say(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\na = 1\n```\n<!-- not run: needs a GPU -->\n```console\n$ b\n```\n"
        "<!-- tested with: --seeds 1 -->\n```console\n$ c \\\n    d   # e\nprinted\n```\n```toml\nf = 1\n```\n"
    )
    assert list(blocks(page)) == [
        Block("python", "a = 1\n"),
        Block("console", "$ b\n", skipped="needs a GPU"),
        Block("console", "$ c \\\n    d   # e\nprinted\n", added="--seeds 1"),
    ]
    assert command_lines("$ c \\\n    d   # e\nprinted\n") == ["c      d   # e"]


def test_most_blocks_are_run() -> None:
    found = [block for page in PAGES for block in blocks(page)]
    assert len([block for block in found if not block.skipped]) > len(found) / 2
    assert len(PAGES) > 14
