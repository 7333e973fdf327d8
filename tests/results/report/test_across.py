from dataclasses import replace

from gradcast.results.report.across import across
from gradcast.results.report.read import Run, read_runs
from gradcast.results.report.tables import Table
from gradcast.specs.text import override
from tests.trained_runs import finished


def runs() -> list[Run]:
    (own,) = read_runs(finished()[0].path).runs
    changed = override(own.spec.model_copy(update={"dtype": "bf16"}), {"learner": {"lr": 0.03}})
    return [own, replace(own, path=own.path.with_name("another"), spec=changed)]


def test_a_single_run_has_nothing_beside_it() -> None:
    assert across(runs()[:1]) is None


def test_what_differs_is_named_with_its_value_in_each_run() -> None:
    found = across(runs())
    assert found is not None
    table = found.blocks[0]
    assert isinstance(table, Table)
    assert table.head == ["setting", finished()[0].path.name, "another"]
    told = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert told == {
        "dtype": ["float32", "bf16"],
        "learner.lr": [str(runs()[0].spec.rows[0].setting.learner.lr), "0.03"],
    }


def test_equal_runs_say_so() -> None:
    own, _ = runs()
    found = across([own, own])
    assert found is not None
    assert str(found.blocks[0]).startswith("All runs have the same settings")


def test_all_rows_stand_in_one_table() -> None:
    own, other = runs()
    found = across([own, other])
    assert found is not None
    table = found.blocks[1]
    assert isinstance(table, Table)
    assert len(table.rows) == 2 * len(own.results)
    first = dict(zip(table.head, table.rows[1], strict=True))
    assert first["run"].text == own.name
    assert first["seeds"].value == len(own.spec.seeds)
    assert first["ACC (%)"].value == 100 * own.results[1].over_seeds("acc").mean
    assert first["against the run's first row"].text == own.results[1].paired.verdict
