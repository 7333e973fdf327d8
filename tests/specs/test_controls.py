from pathlib import Path

import pytest

from gradcast.errors import GradcastError
from gradcast.runs.directory import RunDirectory
from gradcast.specs.controls import controls_of, role
from gradcast.specs.spec import Spec
from gradcast.specs.text import dump, load, parse

ROWS: list[dict[str, object]] = [
    {"name": "base"},
    {"name": "predicted", "signal": {"name": "predicted"}},
    {"name": "noise", "signal": {"name": "noise"}},
    {"name": "pass", "signal": {"name": "forward-only"}},
    {"name": "blank", "signal": {"name": "predicted"}, "pool": {"name": "pixels"}},
    {"name": "often", "signal": {"name": "predicted"}, "policy": {"p": 1.0}},
    {"name": "true", "signal": {"name": "true-labels"}, "pool": {"name": "held-out"}, "stream": {"ratio": 0.5}},
]


def spec(*rows: dict[str, object]) -> Spec:
    return parse({"name": "own", "row": [*ROWS, *rows]})


def test_signals_and_pools_that_show_nothing_are_controls_by_nature() -> None:
    found = {row.name: role(row) for row in spec().rows}
    assert [name for name in found if found[name] == "control"] == ["noise", "pass", "blank"]
    assert [name for name in found if found[name] == "bound"] == ["true"]


def test_a_control_is_one_of_rows_that_differ_by_signal_or_pool_alone() -> None:
    own = spec()
    by_name = {row.name: row for row in own.rows}
    assert controls_of(by_name["predicted"], own.rows) == ["noise", "pass", "blank"]
    assert [controls_of(by_name[name], own.rows) for name in ("base", "often", "noise", "true")] == [[], [], [], []]


@pytest.mark.parametrize(
    ("control", "names"),
    [(True, ["predicted"]), ("often", ["often"]), (["often", "predicted"], ["predicted", "often"])],
)
def test_a_row_may_say_what_it_is_a_control_of(control: object, names: list[str]) -> None:
    own = spec({"name": "frozen", "signal": {"name": "predicted", "directions": "frozen"}, "control": control})
    assert role(own.rows[-1]) == "control"
    assert [row.name for row in own.rows if "frozen" in controls_of(row, own.rows)] == names


def test_a_control_by_nature_may_make_a_claim() -> None:
    own = spec({"name": "claim", "signal": {"name": "noise"}, "control": False})
    assert role(own.rows[-1]) == "claim"
    assert controls_of(own.rows[-1], own.rows) == ["noise", "pass"]


def test_the_word_is_kept_and_changes_no_run_that_lacks_it() -> None:
    own = spec({"name": "frozen", "signal": {"name": "predicted", "directions": "frozen"}, "control": "often"})
    assert parse(dump(own)) == own
    assert "control" not in dump(load("digits"))
    assert "control" not in load("digits").rows[0].model_dump()
    plain = own.model_copy(update={"rows": [row.model_copy(update={"control": None}) for row in own.rows]})
    names = [RunDirectory.named(Path("runs"), each).path.name for each in (own, plain)]
    assert names[0] == names[1]  # what is trained is the same


def test_a_name_that_is_no_row_is_refused() -> None:
    with pytest.raises(GradcastError, match=r"row 'x': control = 'ofen' is no other row; did you mean 'often'\?"):
        spec({"name": "x", "control": "ofen"})
    with pytest.raises(GradcastError, match=r"unknown key 'row\.kontrol'; did you mean 'control'\?"):
        spec({"name": "x", "kontrol": True})
