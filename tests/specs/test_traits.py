from gradcast.specs.text import load
from gradcast.specs.traits import learner_has, signal_with


def test_learners_and_signals_are_known_by_their_traits() -> None:
    setting = load("digits", ["learner.name=lwf", "signal.name=contrastive"]).rows[1].setting
    assert learner_has(setting, "unmixed")
    assert not learner_has(setting, "own-network")
    found = signal_with(setting, "pairs")
    assert found is not None
    assert found.name == "contrastive"
    assert signal_with(setting, "truth") is None
