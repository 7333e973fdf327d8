from typing import Literal

from gradcast.signals.signal_entry import SignalEntry, signal_entry
from gradcast.signals.signal_table import SignalTable
from gradcast.streams.draws import Views


class Two(SignalTable):
    """Wants several views."""

    name: Literal["two", "three"]


def test_a_signal_sees_each_image_once_unless_its_table_says_otherwise() -> None:
    plain = signal_entry(Two, lambda table, context: None, "two", "nothing")
    several = signal_entry(
        Two,
        lambda table, context: None,
        "two",
        "nothing",
        "pairs",
        views=lambda t: Views({"two": 2, "three": 3}[t.name]),
    )
    table = Two(name="three")
    assert isinstance(plain, SignalEntry)
    assert plain.views(table) == Views()
    assert several.views(table) == Views(3)
    assert (several.names, several.traits, several.about) == (("two", "three"), {"pairs"}, "Wants several views.")
