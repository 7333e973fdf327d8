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


def test_a_signal_fits_images_of_any_shape_and_has_no_weights_unless_it_says_so() -> None:
    plain = signal_entry(Two, lambda table, context: None, "two", "nothing")
    choosy = signal_entry(
        Two,
        lambda table, context: None,
        "two",
        "nothing",
        problem=lambda table, shape: "too few" if len(shape) < 2 else None,
        weights=lambda table, shape: 3 * shape[0],
    )
    table = Two(name="two")
    assert (plain.problem(table, (1,)), plain.weights(table, (1,))) == (None, 0)
    assert (choosy.problem(table, (5,)), choosy.problem(table, (5, 6)), choosy.weights(table, (5,))) == (
        "too few", None, 15,
    )  # fmt: skip
