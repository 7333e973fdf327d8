import sys
from itertools import product
from unittest import mock

import pytest

from gradcast.errors import GradcastError
from gradcast.sweeps.over import Over, all_over
from gradcast.sweeps.search import Told, Values, combinations, corners, grid, proposals, random_draws, said


def over(*given: str) -> list[Over]:
    return all_over(given)[1]


def test_a_grid_is_every_combination() -> None:
    found = grid(over("a.x=1,2,3", "b.y=u,v", "c.z=lin:0:1:3"))
    independent = [{"a.x": x, "b.y": y, "c.z": z} for x, y, z in product((1, 2, 3), ("u", "v"), (0.0, 0.5, 1.0))]
    assert found == independent


def test_random_draws_are_different_within_their_ends_and_the_same_again() -> None:
    own = over("a.x=log:0.01:1", "b.y=u,v")
    found = random_draws(own, 40, 3)
    assert found == random_draws(own, 40, 3) != random_draws(own, 40, 4)
    assert len({said(values) for values in found}) == 40
    assert all(0.01 <= values["a.x"] <= 1 for values in found)  # type: ignore[operator]
    low = sum(values["a.x"] < 0.1 for values in found)  # type: ignore[operator]
    assert 10 <= low <= 30  # even in the logarithm


def test_random_draws_may_take_all_combinations() -> None:
    own = over("a.x=1,2,3", "b.y=u,v")
    assert {said(values) for values in random_draws(own, 6, 0)} == {said(values) for values in grid(own)}


def test_corners_are_ends_and_listed_values() -> None:
    assert list(corners(over("a.x=lin:0:1", "b.y=u"))) == [{"a.x": 0.0, "b.y": "u"}, {"a.x": 1.0, "b.y": "u"}]
    assert combinations(over("a.x=lin:0:1")) is None


@pytest.mark.parametrize(
    ("search", "trials", "sentence"),
    [
        ("grid", 3, "--trials belongs to"),
        ("random", None, "needs the number of trials"),
        ("random", 3, "more than the 2 combinations"),
        ("tpe", 3, "more than the 2 combinations"),
    ],
)
def test_numbers_of_trials_that_make_no_sense(search: str, trials: int | None, sentence: str) -> None:
    with pytest.raises(GradcastError, match=sentence):
        proposals(search, over("a.x=1,2"), trials, 0)  # type: ignore[arg-type]


def test_without_optuna_a_sentence_says_what_to_install() -> None:
    with mock.patch.dict(sys.modules, {"optuna": None}), pytest.raises(GradcastError, match=r"gradcast\[sweep\]"):
        proposals("tpe", over("a.x=lin:0:1"), 3, 0)


def tpe_trials(own: list[Over], trials: int, seed: int = 0) -> list[Values]:
    """Values near 0.3 are good."""
    pytest.importorskip("optuna", reason="TPE is Optuna's, which is not installed")
    search, total = proposals("tpe", own, trials, seed)
    found = list[Values]()
    while proposed := search.next(1):
        x = proposed[0]["a.x"]
        assert isinstance(x, int | float)
        stopped = 2 if x > 0.9 else 0
        search.tell(proposed[0], None if x < 0.05 else Told(1 - abs(x - 0.3), stopped))
        found += proposed
    assert len(found) == total
    return found


def test_tpe_is_deterministic_and_learns() -> None:
    own = over("a.x=lin:0:1", "b.y=u,v")
    found = tpe_trials(own, 24)
    assert found == tpe_trials(own, 24)
    assert found != tpe_trials(own, 24, seed=1)
    late = [abs(values["a.x"] - 0.3) for values in found[12:]]  # type: ignore[operator]
    assert sum(late) / 12 < 0.25  # drawn evenly it would be 0.29


def test_tpe_tries_every_combination_once_where_it_has_to() -> None:
    own = over("a.x=0.1,0.3,0.5", "b.y=u,v")
    assert {said(values) for values in tpe_trials(own, 6)} == {said(values) for values in grid(own)}
