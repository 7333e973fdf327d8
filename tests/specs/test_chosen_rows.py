import pytest

from gradcast.errors import GradcastError
from gradcast.specs.chosen_rows import with_rows
from gradcast.specs.text import load, parse


def test_rows_keep_their_order_and_their_settings() -> None:
    spec = load("split-digits")
    found = with_rows(spec, ["er-200", "finetune"])
    assert [row.name for row in found.rows] == ["finetune", "er-200"]
    assert {row.name: row for row in found.rows}.items() <= {row.name: row for row in spec.rows}.items()
    assert found.seeds == spec.seeds
    assert with_rows(spec, []) == spec


def test_a_row_that_is_not_there_is_answered_with_the_nearest() -> None:
    with pytest.raises(GradcastError, match="split-digits has no row 'er-20'; did you mean 'er-200'"):
        with_rows(load("split-digits"), ["er-20"])


def test_a_control_stays_one_of_the_rows_that_are_left() -> None:
    text = [
        *('name = "run"', "[[row]]", 'name = "base"', "[[row]]", 'name = "predicted"', 'signal.name = "predicted"'),
        *("[[row]]", 'name = "random"', 'signal.name = "noise"', 'control = ["predicted"]'),
    ]
    spec = parse("\n".join(text))
    assert with_rows(spec, ["base", "random"]).rows[1].control == []
    assert with_rows(spec, ["predicted", "random"]).rows[1].control == ["predicted"]
