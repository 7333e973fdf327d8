import warnings
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from gradcast.specs import entry as module
from gradcast.specs.entry import Entry, Registry, entry, names_of, third_parties
from gradcast.specs.table import Table


class One(Table):
    """The first kind; it has two names.

    More about it.
    """

    name: Literal["one", "uno"]
    size: int = 3


class Two(Table):
    """The second kind."""

    name: Literal["two"] = "two"


ONE = entry(One, lambda table, context: (table.size, context), lambda table: f"size {table.size}", "much", "large")
TWO = entry(Two, lambda table, context: None, "two")
THIRD = entry(Two, lambda table, context: "third", "third")
CLASH = Entry(("other", "one"), One, lambda table, context: None, "clash")


def installed(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """As if packages were installed that have these entry points."""
    found = [EntryPoint(name, f"{__name__}:{value}", "gradcast.things") for name, value in points.items()]
    monkeypatch.setattr(module, "entry_points", lambda group: found if group == "gradcast.things" else [])


def test_an_entry_says_what_it_is_before_anything_is_made() -> None:
    assert names_of(One) == ONE.names == ("one", "uno")
    assert ONE.describe(One(name="uno", size=5)) == "size 5"
    assert TWO.describe(Two()) == "two"
    assert ONE.about == "The first kind; it has two names."
    assert (ONE.cost, ONE.traits) == ("much", {"large"})
    assert ONE.build(One(name="one"), "here") == (3, "here")


def test_a_registry_finds_entries_by_any_of_their_names() -> None:
    found = Registry("thing", [ONE, TWO])
    assert list(found) == ["one", "uno", "two"]
    assert len(found) == 3
    assert found["uno"] is ONE
    assert found.tables == {"one": One, "uno": One, "two": Two}
    with pytest.raises(ValueError, match="there are two things called 'two'"):
        Registry("thing", [TWO, TWO])


def test_the_name_in_a_table_decides_its_type() -> None:
    either = TypeAdapter(Registry("thing", [ONE, TWO]).union())
    assert either.validate_python({"name": "uno"}) == One(name="uno")
    assert either.validate_python({"name": "two"}) == Two()
    with pytest.raises(ValidationError, match="three"):
        either.validate_python({"name": "three"})
    alone = TypeAdapter(Registry("thing", [TWO]).union())
    assert alone.validate_python({}) == Two()


def test_methods_of_installed_packages_join_and_their_code_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, two="THIRD")
    found = Registry("thing", [ONE])
    assert found["two"] is THIRD
    assert found.own == {"one", "uno"}
    assert found.code(Two()) == Path(__file__)
    assert found.code(One(name="one")) is None
    assert list(Registry("other", [ONE])) == ["one", "uno"]


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ({"two": "MISSING"}, "the thing 'two' is left out"),
        ({"two": "One"}, "not a gradcast.Entry"),
        ({"one": "THIRD"}, "there is one of this name already"),
        ({"other": "CLASH"}, "there are two things called 'one'"),
    ],
)
def test_what_is_no_use_is_left_out_by_name_and_everything_else_works(
    points: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, **points)
    with pytest.warns(UserWarning, match=words):
        found = Registry("thing", [ONE])
    assert list(found) == ["one", "uno"]


def test_third_parties_of_one_name_do_not_replace_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("two", f"{__name__}:{value}", "gradcast.things") for value in ("TWO", "THIRD")]
    monkeypatch.setattr(module, "entry_points", lambda group: points)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert third_parties("thing", Entry, ()) == {"two": TWO}
    assert len(told) == 1
