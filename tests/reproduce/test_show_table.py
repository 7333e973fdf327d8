import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradcast.reproduce.outcome import Line
from gradcast.reproduce.render import places
from gradcast.reproduce.reproduce import Request
from gradcast.reproduce.show_table import (
    TRAINED_ON,
    about,
    difference,
    gain,
    heading,
    label,
    markdown,
    noise,
    save,
    table,
)
from gradcast.results.figures.scatter import Cloud
from gradcast.results.statistics import Interval
from tests.compared import compare
from tests.reproduce.scene import experiment

OWN = experiment()
OURS = {
    "acc": Interval(71.234, 70.084, 72.384, 3),
    "bwt": Interval(0.0123, 0.0073, 0.0173, 3),
    "fwt": Interval(0.5, 0.4, 0.6, 3),
}
FOUND = [
    Line(OWN.item("gem"), OURS, OWN.item("gem").published or {}),
    Line(OWN.item("predicted"), OURS, {"acc": 82.0}, compare([71.0, 72.0], [70.0, 73.0]), 2.0, "pairs"),
    Line(OWN.item("ewc"), {}, {"acc": 60.0}, published_gain=-20.0, state="not reproduced: no EWC"),
]


def wanted(place: Path, *, quick: bool = False) -> Request:
    return Request(OWN, [0, 1, 2], "float32", place, quick=quick)


def test_the_heading_says_what_it_is_and_whether_it_counts(tmp_path: Path) -> None:
    said = heading(wanted(tmp_path))
    assert said == "T1, Table: digits: 3 seeds, float32, mean ± 95 % confidence interval"
    assert heading(wanted(tmp_path, quick=True)).startswith("QUICK LOOK, not a result")
    assert about(wanted(tmp_path)) == "Small."
    changed = replace(wanted(tmp_path), settings=["learner.lr=1"])
    assert about(wanted(tmp_path, quick=True)) == about(changed) == "The table unchanged: Small."


def test_what_is_special_about_a_row_is_part_of_its_label(tmp_path: Path) -> None:
    request = wanted(tmp_path)
    assert label(FOUND[1], request) == "GEM + predicted"
    assert label(FOUND[1], replace(request, seeds=[0, 1, 2, 3])) == "GEM + predicted (3 of 4 seeds)"
    scratch = replace(FOUND[1], item=replace(FOUND[1].item, pretrained=True), published={})
    assert label(scratch, request) == "GEM + predicted (from scratch)"
    assert "with learner.lr=1" in heading(replace(request, settings=["learner.lr=1"]))


def test_numbers_in_words() -> None:
    assert difference(FOUND[0]) == ""
    assert difference(FOUND[1]).startswith("+0.00 ± ")
    assert difference(replace(FOUND[1], paired=compare([70.0, 72.0], [71.0, 73.0]))) == "-1.00 ± 0.00"
    assert [gain(line) for line in FOUND] == ["", "+2.00", "-20.00"]
    assert [noise(line) for line in FOUND] == ["", "within the noise of pairs", ""]
    assert noise(replace(FOUND[1], noise="beyond")) == "beyond the noise of single runs"


def test_the_table_has_a_cell_for_everything(tmp_path: Path) -> None:
    own = table(wanted(tmp_path), FOUND)
    rows = [line for line in markdown(own, "").splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {rows[0].count("|")}
    assert rows[2].startswith("| GEM | 80.00 | 71.23 ± 1.15 | 0.0100 | 0.0123 ± 0.0050 |")
    assert "| not reproduced: no EWC |" in rows[4]
    assert markdown(own, "", "a GPU").endswith("\n\nTrained on a GPU.\n")


def test_where_nothing_was_published_ours_stands_alone(tmp_path: Path) -> None:
    items = tuple(replace(item, published=None) for item in OWN.items)
    request = replace(wanted(tmp_path), experiment=replace(OWN, items=items))
    lines = [replace(line, published={}, published_gain=None, noise=None) for line in FOUND]
    rows = [line for line in markdown(table(request, lines), "").splitlines() if line.startswith("|")]
    assert rows[0] == "|  | ACC (%) | BWT | FWT | gain | verdict |"
    assert rows[2] == "| GEM | 71.23 ± 1.15 | 0.0123 ± 0.0050 | 0.5000 ± 0.1000 |  |  |"
    assert rows[4] == "| EWC | not reproduced: no EWC |  |  |  |  |"


def test_correlations_are_kept_beside_the_table(tmp_path: Path) -> None:
    groups = {"pseudo labels": [Cloud("1-PL", [0.1, 0.2, 0.3], [60.0, 61.0, 62.0])]}
    place = save(wanted(tmp_path), FOUND, groups)
    facts = json.loads((place / "result.json").read_text())
    assert facts["correlations"] == {"pseudo labels": {"r": pytest.approx(1.0), "n": 3}}
    said = "\n\nPearson's correlation of cosine and ACC, pseudo labels: r = 1.00, n = 3.\n"
    assert said in (place / "table.md").read_text()
    assert "correlations" not in json.loads((save(wanted(tmp_path), FOUND) / "result.json").read_text())


@pytest.mark.parametrize("quick", [False, True])
def test_saved_files_say_whether_they_are_results(tmp_path: Path, quick: bool) -> None:
    place = save(wanted(tmp_path, quick=quick), FOUND)
    facts = json.loads((place / "result.json").read_text())
    assert facts["quick"] is quick
    assert [row["name"] for row in facts["rows"]] == ["gem", "predicted", "ewc"]
    assert all(("QUICK LOOK" in (place / f"table.{kind}").read_text()) is quick for kind in ("md", "tex"))
    lines = (place / "table.csv").read_text().splitlines()
    assert lines[1].startswith("GEM,80.0,71.234,70.084,72.384,0.01,0.0123")


@pytest.mark.parametrize(("name", "least"), [("E1", 18), ("E2", 18), ("E3", 25), ("E8", 8)])
def test_the_documentation_shows_tables_as_they_were_saved(name: str, least: int) -> None:
    docs = Path(__file__).parents[2] / "docs"
    said = (docs / "results.md").read_text().splitlines()
    own = (docs / "results" / f"{name}.md").read_text().splitlines()
    rows = [line for line in own if line.startswith("| ") and " | not run |" not in line and "| ---" not in line]
    rows = [line for line in rows if "not reproduced" not in line]
    assert len(rows) >= least
    assert set(rows) <= set(said)
    assert f"{places(own[-1].removeprefix(TRAINED_ON).removesuffix('.'))}." in said


def test_a_table_of_nothing_says_why(tmp_path: Path) -> None:
    nothing = [replace(line, item=replace(line.item, published=None), ours={}, state="not run") for line in FOUND]
    (_, _, ours, *_), *_ = table(wanted(tmp_path), nothing).rows
    assert ours.text == "not run"
