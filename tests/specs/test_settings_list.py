from gradcast.learners.gem import GemSpec
from gradcast.learners.registry import LEARNERS
from gradcast.signals.registry import SIGNALS
from gradcast.specs.settings_list import settings_of
from gradcast.specs.table import Positive, Table


class Own(Table):
    """Settings of a test."""

    name: str
    needed: Positive  # must be there
    flag: bool = True
    text: str = ""  # what # it says


def test_meanings_are_the_comments_of_the_source() -> None:
    lines = {line.name: line for line in settings_of(Own)}
    assert list(lines) == ["needed", "flag", "text"]
    assert (lines["needed"].default, lines["needed"].meaning) == ("", "must be there")
    assert (lines["flag"].default, lines["flag"].meaning) == ("true", "")
    assert (lines["text"].default, lines["text"].meaning) == ('""', "what # it says")


def test_keys_of_base_tables_are_among_them() -> None:
    lines = {line.name: line for line in settings_of(GemSpec)}
    assert lines["lr"].meaning == "learning rate"
    assert lines["memory"].default == "256"


def test_every_method_can_be_listed() -> None:
    for registry in (LEARNERS, SIGNALS):
        for name, entry in registry.items():
            assert {line.name for line in settings_of(entry.table)} == set(entry.table.model_fields) - {"name"}, name
