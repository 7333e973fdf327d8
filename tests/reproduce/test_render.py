import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tools import render_results

from gradcast.errors import GradcastError
from gradcast.reproduce.measured_tables import folder
from gradcast.reproduce.render import places, read_saved, render

PAGES, RESULTS = Path(__file__).parents[2] / "docs" / "results", folder()
TABLES = sorted(page.stem for page in PAGES.glob("*.md"))


@pytest.mark.parametrize("name", TABLES)
def test_the_documentation_has_the_verdicts_of_the_rule(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert read_saved(RESULTS / f"{name}.json").markdown() == page  # else: python tools/render_results.py


def test_machines_and_days_in_one_line() -> None:
    gpu, cpu = "NVIDIA H200, torch 2.11.0", "cpu, torch 2.13.0+cpu"
    assert places(f"{gpu}, 2026-11-18, commit 5bf3") == f"Measured on {gpu}, 2026-11-18"
    several = f"{gpu}, 2026-11-18, commit 5bf3; {cpu}, 2026-11-15; {gpu}, 2026-11-16"
    assert places(several) == f"Measured on {gpu}; {cpu}, 2026-11-15 to 2026-11-18"
    assert places("elsewhere") == "elsewhere"


def test_a_page_is_written_beside_its_file_and_changes_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "E1.json"
    shutil.copy(RESULTS / "E1.json", file)
    before = file.read_bytes()
    assert render(file).read_text() == (PAGES / "E1.md").read_text()
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["E1.json", "E1.md"]


def test_rows_without_their_seeds_keep_their_means_and_have_no_verdict() -> None:
    """Files of earlier versions; this one has five seeds, whose interval was (-1.8, 1.7)."""
    lines = {line.item.name: line for line in read_saved(RESULTS / "E4.json").lines}
    own = lines["acl-predicted"]
    assert own.trained is None
    assert own.ours["acc"].mean == pytest.approx(67.81)
    assert "deviation" not in own.ours
    assert "| 1.05 | seeds not stored |" in read_saved(RESULTS / "E4.json").markdown()
    assert lines["a-gem"].ours["deviation"].mean == pytest.approx(np.std([37.29, 29.82, 32.72, 30.34, 27.66]))
    assert own.paired is not None
    assert own.paired.verdict == "open: 5 seeds, a verdict needs 10 (mean -0.044 points, t interval -1.8 to +1.7)"


def test_pages_with_a_copy_of_a_table_gain_its_new_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_results, "DOCS", tmp_path)
    before = ["|  | ACC |", "| --- | --- |", "| GEM | 80 |", "| EWC | not run |", "| ER | 70 |",
              "| DCL (10 of 32 seeds) | 81 |", "on Monday."]  # fmt: skip
    after = ["|  | ACC | BWT |", "| --- | --- | --- |", "| GEM | 82 | 0 |", "| EWC | 60 | 0 |", "| ER | 71 | 0 |",
             "| new | 83 | 0 |", "| late | not run |  |", "| DCL | 84 | 0 |", "on Tuesday."]  # fmt: skip
    other = [*before[:2], "| MAS | 79 |", "", before[-1]]  # of another table: the same head, and the same day
    page = ["Text.", *before[:3], before[5], "", before[6], "| GEM |", *other]
    (tmp_path / "page.md").write_text("\n".join(page) + "\n")
    render_results.replace_lines(before, after)
    shown = ["Text.", *after[:4], after[5], after[7], "", after[8], "| GEM |", *other]
    assert (tmp_path / "page.md").read_text().splitlines() == shown


def test_five_seeds_have_no_verdict_and_ten_may() -> None:
    five, ten = (read_saved(RESULTS / f"{name}.json").lines for name in ("E3", "E2"))
    assert {line.paired.kind for line in five if line.paired} == {"open", "control"}
    kinds = {line.item.name: line.paired.kind for line in ten if line.paired}
    assert kinds["gem-p-pl"] == "costs"
    assert kinds["gem-predicted"] == "no effect"
    assert kinds["gem-random"] == kinds["dcl-random"] == "control"
    assert {line.paired.family for line in ten if line.paired} == {12}  # fourteen rows, two of them controls


@pytest.mark.parametrize("content", ["{", "[]", '{"rows": 3}', json.dumps({"rows": [{"name": "gem"}]})])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(GradcastError, match=r"x\.json cannot be read \(.*\); give the result\.json of a table"):
        render(file)
