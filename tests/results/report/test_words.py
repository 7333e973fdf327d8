from dataclasses import replace

import pytest

from gradcast.results.report.words import DIAGNOSTICS, counted, headline, number, shifted, size_of_h, verdicts
from gradcast.results.result import diagnose
from gradcast.results.statistics import Interval, Shift
from gradcast.specs.text import load
from tests.trained_runs import finished, small


def test_numbers() -> None:
    assert number(Interval(0.8123, 0.7973, 0.8273, 5), 100) == "81.23 ± 1.50"
    assert number(Interval(0.8123, float("-inf"), float("inf"), 1), 100) == "81.23"
    assert number(Interval(-0.01234, -0.02234, -0.00234, 3)) == "-0.0123 ± 0.0100"
    assert number(Interval(0.5, 0.25, 0.75, 3), digits=1) == "0.5 ± 0.2"
    assert number(Interval(0.995, 0.97, 1.0, 3), 100) == "99.50 (97.00 to 100.00)"  # cut at 100 %


def test_a_shift_shows_its_interval_where_it_has_one() -> None:
    assert shifted(Shift(1.234, -0.5, 2.0, 0.95, 10)) == "+1.23 (-0.50 to +2.00)"
    assert shifted(Shift(1.0, float("-inf"), float("inf"), 0.95, 3)) == "+1.00"


def test_one_row_has_no_comparison() -> None:
    collapsed, alone = verdicts(finished()[1][:1])
    assert (collapsed, alone) == ("GEM: 1 of 3 seeds collapsed (0)", "one row, nothing to compare it with")


def test_rows_of_other_streams_are_not_compared() -> None:
    base, other, *_ = finished()[1]
    (sentence,) = verdicts([base, replace(other, paired=None)])
    assert sentence == f"{other.label} against {base.label}: not compared, their streams differ"


@pytest.mark.parametrize(("count", "said"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows")])
def test_counts_have_their_noun(count: int, said: str) -> None:
    assert counted(count, "row") == said


def test_the_headline_says_what_was_run() -> None:
    assert "3 rotated tasks of digits, 3 paired seeds, mean ± 95 %" in headline(small())
    assert "1 paired seed, mean" in headline(small("seeds=[4]"))


def test_few_labels_are_counted() -> None:
    assert "svhn with 1,000 labels, 400,000 steps, 5 paired seeds" in headline(load("svhn-1000"))


def test_every_number_of_a_signal_has_words() -> None:
    keys = ("loss", "projected", "tau", "gain", "cosine", "label_accuracy", "pseudo_accuracy", "label_movement")
    more = ("signal_loss", "agreement", "memory_agreement", "pseudo_ratio", "movement", "skipped", "unlabelled")
    more = (*more, "confident", "stable")
    assert diagnose([dict.fromkeys((*keys, *more), 1.0)]).keys() == DIAGNOSTICS.keys()


def test_the_size_of_h_is_told_where_rows_have_one() -> None:
    results = finished()[1]
    assert [own.h_parameters for own in results] == [None, 1824, None]
    assert size_of_h(results) == ["The gradient learner h has 1,824 parameters."]
    assert size_of_h(results[:1]) == []
    assert results[1].as_dict()["h_parameters"] == 1824
    assert "h_parameters" not in results[0].as_dict()
