import tomllib
from typing import Any

import pytest

from gradcast.errors import GradcastError
from gradcast.specs.text import load
from gradcast.sweeps.request import requested, tuned_row

OVER: dict[str, Any] = {"over": ["learner.lr=0.1,0.2"]}


def test_tuning_seeds_begin_at_100_and_reported_ones_at_0() -> None:
    found = requested(OVER)
    assert found.tuning_seeds == [100, 101, 102]
    assert found.final_seeds == list(range(10))


def test_what_is_written_says_the_same() -> None:
    found = requested({**OVER, "search": "random", "trials": 2, "prune": True, "tune_seeds": [100, 105]})
    assert requested(tomllib.loads("\n".join(found.as_toml()))) == found


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tune_seeds": [99]}, "seed 99 may be reported"),
        ({"seeds": 101}, "seed 100 is tuned on and reported"),
        ({"seeds": [7, 101]}, "seed 101 is tuned on and reported"),
        ({"seeds": [7, 7]}, "a seed twice"),
        ({"validaton": 0.1}, "did you mean 'sweep.validation'"),
        ({"validation": 1.0}, "should be less than 1"),
        ({"search": "best"}, "sweep.search = 'best' is not valid"),
        ({"over": 3}, "sweep.over = 3 is not valid"),
    ],
)
def test_mistakes_are_sentences(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GradcastError, match=sentence):
        requested({**OVER, **given})


def test_the_row_is_asked_for_where_several_could_be_meant() -> None:
    spec = load("digits")
    assert tuned_row(spec, "random").name == "random"
    assert tuned_row(spec.model_copy(update={"rows": spec.rows[:2]}), "").name == "predicted"
    assert tuned_row(spec.model_copy(update={"rows": spec.rows[:1]}), "").name == "base"
    with pytest.raises(GradcastError, match="add --row predicted or --row random"):
        tuned_row(spec, "")
    with pytest.raises(GradcastError, match="did you mean 'predicted'"):
        tuned_row(spec, "predict")
