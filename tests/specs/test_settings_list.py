from typing import Literal

from gradcast.learners.gem import GemSpec
from gradcast.learners.registry import LEARNERS
from gradcast.signals.registry import SIGNALS
from gradcast.specs.settings_list import SettingLine, settings_of
from gradcast.specs.table import Positive, Table
from gradcast.streams.pool_tables import FolderSpec


class Own(Table):
    """A table of a test."""

    name: Literal["own"]
    count: Positive  # of things
    wide: bool = True
    words: str = ""  # said aloud


def test_every_key_has_its_default_and_the_comment_behind_it() -> None:
    count, wide, words = settings_of(Own)
    assert (count.name, count.default, count.meaning) == ("count", "", "of things")
    assert wide == SettingLine("wide", "bool", "true", "")
    assert words == SettingLine("words", "str", '""', "said aloud")


def test_keys_of_a_base_are_among_them_and_the_name_is_not() -> None:
    gem = {line.name: line for line in settings_of(GemSpec)}
    assert {"lr", "momentum", "decay", "memory", "margin"} <= gem.keys()
    assert "name" not in gem
    assert gem["lr"].default == "0.1"
    assert {line.name: line.default for line in settings_of(FolderSpec)}["path"] == ""


def test_every_method_has_a_list() -> None:
    for registry in (LEARNERS, SIGNALS):
        for name, table in registry.tables.items():
            assert {line.name for line in settings_of(table)} == table.model_fields.keys() - {"name"}, name


def test_a_table_made_at_run_time_has_no_meanings() -> None:
    made = type("Made", (Own,), {"__module__": "nowhere"})
    assert [line.meaning for line in settings_of(made)] == ["of things", "", "said aloud"]  # those of its base
