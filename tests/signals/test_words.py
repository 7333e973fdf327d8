import pytest
from gradcast.signals.words import describe

from gradcast.signals.registry import SIGNALS
from gradcast.specs.text import load
from tests.helpers import OPTIONS, signal_and_pool


@pytest.mark.parametrize("name", SIGNALS)
def test_every_signal_is_described(name: str) -> None:
    setting = load("digits", signal_and_pool(name)).rows[1].setting
    assert bool(describe(setting.signal)) == (name != "none")


def test_labels_tell_signals_apart() -> None:
    names = ["predicted", "noise", "one-hot", "soft"]
    settings = [["signal.name=" + name, *(["signal.scaled=true"] if name != "predicted" else [])] for name in names]
    labels = [describe(load("digits", own).rows[1].setting.signal) for own in settings]
    scaled = [f"{kind} pseudo labels, scaled" for kind in ("one-hot", "soft")]
    assert labels == ["predicted gradients", "random directions", *scaled]
    plain = load("digits", ["signal.name=one-hot"]).rows[1].setting.signal
    assert describe(plain) == "one-hot pseudo labels"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (OPTIONS[1], "meta-gradient, mix-up"),
        ("one-hot,signal.protected=true", "one-hot pseudo labels, protected teacher"),
        (
            "soft,signal.outputs=seen,signal.scaled=true,model.heads=masked",
            "soft pseudo labels, scaled, all classes seen",
        ),
        ("true-labels,signal.scaled=true,pool.name=held-out", "true labels, scaled"),
    ],
)
def test_options_that_change_what_a_signal_does_are_named(settings: str, words: str) -> None:
    assert describe(load("digits", signal_and_pool(settings)).rows[1].setting.signal) == words
