import pytest

from gradcast.results import wording
from gradcast.results.sample import Sample
from gradcast.results.statistics import Shift, interval


def test_an_effect_has_its_size_and_interval() -> None:
    assert wording.helps(Shift(1.24, 0.31, 2.0, 0.95, 10)) == "helps by 1.2 points (0.3 to 2.0)"
    assert wording.costs(Shift(-1.24, -2.0, -0.31, 0.95, 10)) == "costs 1.2 points (0.3 to 2.0)"
    assert wording.helps(Shift(0.0123, 0.0085, 0.013, 0.95, 10)) == "helps by 0.012 points (0.0085 to 0.013)"


@pytest.mark.parametrize(("role", "said"), [("control", "control, no claim: "), ("bound", "bound, no claim: ")])
def test_rows_without_a_claim_have_an_interval(role: str, said: str) -> None:
    shift, mean = Shift(0.5, -0.25, 1.0, 0.95, 10), interval([0.5, 0.5])
    assert wording.no_claim(role, shift, mean) == f"{said}+0.5 points, -0.2 to +1.0"


def test_lost_seeds_are_named_with_their_row() -> None:
    row = Sample("GEM", {0: 85.0, 1: 85.5, 2: 60.0}, {3: "step 9"})
    assert wording.losses(row, "") == ["1 of 4 seeds diverged (3)", "1 of 4 seeds collapsed (2)"]
    assert wording.losses(row, "GEM")[0] == "1 of 4 seeds of GEM diverged (3)"


def test_an_open_answer_says_how_many_seeds_would_give_one() -> None:
    shift = Shift(1.2, -1.2, 9.0, 0.99, 10)
    said = "open: 10 seeds (+1.2 points, -1.2 to +9.0)"
    assert wording.open_interval(shift, 34) == f"{said}, a guess: about 34 seeds would decide"
    assert wording.open_interval(shift, "more than 1000") == f"{said}, a guess: more than 1000 seeds would decide"
    assert wording.open_interval(shift, None) == said


def test_seeds_needed_are_a_guess() -> None:
    assert wording.guessed(34, 5) == "about 34, a guess from 5 seeds"
    assert wording.guessed("more than 1000", 1) == "about more than 1000, a guess from 1 seed"


def test_a_row_at_chance_has_learned_nothing_unless_a_guess_is_always_right() -> None:
    assert wording.nothing_learned(Sample("ER", {0: 20.0}, {}, chance=20.0)).startswith("nothing was learned (ACC 20.0")
    assert wording.nothing_learned(Sample("ER", {0: 100.0}, {}, chance=100.0)).startswith("open: one class a task")
