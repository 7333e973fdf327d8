import math
from itertools import pairwise

import pytest

from gradcast.errors import GradcastError
from gradcast.sweeps.over import Range, all_over, as_text, parse_over, split_list


def test_lists_hold_numbers_words_truth_values_and_lists() -> None:
    assert parse_over("a.b=0.001,1,true,word")[1].grid() == [0.001, 1, True, "word"]
    assert parse_over("model.hidden=[12],[24, 12]")[1].grid() == [[12], [24, 12]]
    assert split_list('"a,b",[1,2],c') == ['"a,b"', "[1,2]", "c"]


def test_a_logarithmic_range_is_a_geometric_sequence() -> None:
    found = parse_over("learner.lr=log:0.01:0.3:5")[1].grid()
    assert found == pytest.approx([0.01 * 30 ** (place / 4) for place in range(5)], rel=1e-5)
    ratios = [math.log(b / a) for a, b in pairwise(found)]  # type: ignore[operator]
    assert ratios == pytest.approx([ratios[0]] * 4, rel=1e-4)


def test_a_linear_range_has_both_ends_and_even_steps() -> None:
    assert parse_over("policy.p=lin:0:1:5")[1].grid() == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_settings_that_take_whole_numbers_get_them_each_once() -> None:
    own = parse_over("learner.memory=log:1:4:9")[1]
    assert own.for_setting(16).grid() == [1, 2, 3, 4]
    assert own.for_setting(0.5) == own
    whole = own.for_setting("all").values
    assert isinstance(whole, Range)
    assert whole.wholes == 4


def test_a_row_may_be_named_by_the_key() -> None:
    row, found = all_over(["row.predicted.signal.alpha=1,2", "learner.lr=0.1"])
    assert row == "predicted"
    assert [own.key for own in found] == ["signal.alpha", "learner.lr"]


def test_an_axis_is_logarithmic_for_such_ranges_and_numbers_far_apart() -> None:
    texts = {"log:0.1:1:3": True, "lin:0:1:3": False, "0.001,0.1": True, "1,2": False, "a,b": False, "0,1": False}
    assert {text: parse_over(f"a.b={text}")[1].logarithmic for text in texts} == texts


def test_python_says_the_same_as_the_command_line() -> None:
    assert as_text({"a.b": [0.1, "word", True], "c.d": "log:1:2:3"}) == ['a.b=0.1,"word",true', "c.d=log:1:2:3"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("learner.lr", "is not KEY=VALUES"),
        ("learner.lr=", "has no value in some place"),
        ("learner.lr=1,,2", "has no value in some place"),
        ("learner.lr=1,1", "more than once"),
        ("learner.lr=log:0:1:3", "has no logarithm"),
        ("learner.lr=log:-1:1:3", "has no logarithm"),
        ("learner.lr=lin:2:1:3", "the lower end comes first"),
        ("learner.lr=lin:0:1:1", "2 or more"),
        ("learner.lr=lin:0:x:3", "is no range"),
    ],
)
def test_mistakes_are_sentences(given: str, sentence: str) -> None:
    with pytest.raises(GradcastError, match=sentence):
        parse_over(given)


def test_mistakes_of_several_keys_are_sentences() -> None:
    for given, sentence in (
        ([], "nothing to sweep over"),
        (["a.b=1", "a.b=2"], "is given 2 times"),
        (["row.x.a.b=1", "row.y.a.b=2"], "one row is tuned at a time"),
    ):
        with pytest.raises(GradcastError, match=sentence):
            all_over(given)
    with pytest.raises(GradcastError, match="does not say how many values"):
        parse_over("a.b=log:1:2")[1].grid()
