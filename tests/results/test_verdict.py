"""The rule of docs/verdicts.md."""

import math
import re
from collections.abc import Sequence

import numpy as np
import pytest

from gradcast.errors import GradcastError
from gradcast.results.sample import Sample
from gradcast.results.verdict import Pair, judge
from tests.compared import compare, pair

TEN = [80.0, 81.0, 79.0, 82.0, 80.5, 79.5, 81.5, 80.2, 79.8, 81.1]
GAINS = [0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8]
SMALL = [0.1, -0.2, 0.3, -0.1, 0.2, -0.3, 0.15, -0.15, 0.25, 0.05]


def plus(base: Sequence[float], gains: Sequence[float], scale: float = 1.0) -> list[float]:
    return [value + scale * gain for value, gain in zip(base, gains, strict=True)]


@pytest.mark.parametrize("gains", [[0.5] * 5, [0.5, 0.5, 0.5, 0.5, 0.6], [2.0, 2.1], [1.0] * 6, GAINS[:9]])
def test_fewer_than_ten_seeds_are_open(gains: list[float]) -> None:
    found = compare(plus(TEN[: len(gains)], gains), TEN[: len(gains)])
    assert found.kind == "open"
    assert found.verdict.startswith(f"open: {len(gains)} seeds, a verdict needs 10 (")


def test_ten_seeds_that_agree_help_or_cost() -> None:
    helped = compare(plus(TEN, GAINS), TEN)
    assert (helped.kind, helped.wilcoxon, helped.family) == ("helps", 2 / 2**10, 1)
    assert helped.verdict == f"helps by 1.4 points ({helped.shift.low:.1f} to {helped.shift.high:.1f})"
    assert compare(plus(TEN, GAINS, -1.0), TEN).verdict == helped.verdict.replace("helps by", "costs")
    assert compare(plus(TEN, [0.5] * 10), TEN).verdict == "helps by 0.5 points (the same on each of 10 seeds)"


def test_a_small_interval_shows_that_there_is_no_effect_and_a_wide_one_shows_nothing() -> None:
    small, wide = compare(plus(TEN, SMALL), TEN), compare(plus(TEN, SMALL, 10.0), TEN)
    assert small.kind == "no effect"
    assert small.verdict.startswith("no effect beyond ±1 point (-0.")
    assert wide.kind == "open"
    assert re.match(
        r"open: 10 seeds \(.*\), a guess: about \d+ seeds would decide; 1 of 10 seeds collapsed", wide.verdict
    )
    assert "no effect" not in wide.verdict


def test_the_printed_interval_is_the_simultaneous_one() -> None:
    several = [pair(plus(TEN, GAINS), TEN), *(pair(plus(TEN, SMALL, 10.0 + place), TEN) for place in range(11))]
    alone, first = judge(several[:1])[0], judge(several)[0]
    assert (alone.shift.confidence, first.shift.confidence) == pytest.approx((0.95, 1 - 0.05 / 12))
    assert first.shift.low < alone.shift.low < alone.shift.high < first.shift.high
    assert first.wilcoxon_holm == pytest.approx(12 * first.wilcoxon)
    assert f"({first.shift.low:.1f} to {first.shift.high:.1f})" in first.verdict


def test_an_effect_that_holm_shows_is_not_printed_as_its_opposite() -> None:
    """The second of two p-values counts once, its interval is of twice the level and may hold zero."""
    gains = [*GAINS[:7], -1.6, *GAINS[8:]]  # one loss of rank 8: p = 50 / 1024
    weak, strong = judge([pair(plus(TEN, gains), TEN), pair(plus(TEN, GAINS), TEN)])
    assert weak.wilcoxon == weak.wilcoxon_holm == 50 / 1024
    assert weak.kind == strong.kind == "helps"
    assert weak.shift.low <= 0 < weak.shift.value
    assert weak.verdict == f"helps by {weak.shift.value:.1f} points (0.0 to {weak.shift.high:.1f})"


def test_only_claims_that_can_be_tested_are_in_the_family() -> None:
    claim = pair(plus(TEN, GAINS), TEN)
    control = Pair(Sample.of("noise", plus(TEN, SMALL)), Sample.of("base", TEN), "control")
    bound = Pair(Sample.of("true labels", plus(TEN, GAINS)), Sample.of("base", TEN), "bound")
    single, same = pair([81.0], [80.0]), pair(TEN, TEN)
    found = judge([claim, control, bound, single, same])
    assert {own.family for own in found} == {1}
    assert [own.wilcoxon_holm for own in found] == [2 / 2**10, None, None, None, None]
    assert [own.kind for own in found] == ["helps", "control", "control", "open", "no effect"]
    assert found[1].verdict.startswith("control, no claim: +0.0")
    assert found[2].verdict.startswith("bound, no claim: +1.4 points")
    assert found[3].verdict == "open: 1 seed, a verdict needs 10 (+1.0 points)"
    assert found[4].verdict == "identical ACC on every seed"
    assert judge([claim], [1.0])[0].family == 2
    assert judge([claim], [1.0])[0].wilcoxon_holm == pytest.approx(2 * 2 / 2**10)


def test_a_large_family_needs_more_seeds() -> None:
    found = judge([pair(plus(TEN, GAINS), TEN)], [1.0] * 25)[0]
    assert found.verdict.startswith("open: 10 seeds, a verdict needs 11 (mean +1.4 points, t interval ")


def test_one_equal_seed_is_not_every_seed() -> None:
    assert compare([80.0], [80.0]).verdict == "open: 1 seed, a verdict needs 10 (+0.0 points)"
    assert compare([80.0, 81.0], [80.0, 81.0]).verdict == "identical ACC on every seed"


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_no_accuracy_is_named(value: float) -> None:
    with pytest.raises(GradcastError, match=f"the ACC of seed 1 of variant is {value}, which is no accuracy"):
        compare([80.0, value], [80.0, 81.0])


def gated(control: Sequence[float], pending: Sequence[str] = ()) -> tuple[str, str]:
    row, base = Sample.of("row", plus(TEN, GAINS)), Sample.of("base", TEN)
    found = judge([Pair(row, base, controls=[Sample.of("noise", control)], pending=pending)])[0]
    return found.kind, found.verdict


def test_a_gain_must_also_beat_its_control() -> None:
    kind, verdict = gated(plus(TEN, SMALL))
    assert (kind, verdict.startswith("helps by 1.4 points")) == ("helps", True)
    kind, verdict = gated(plus(TEN, plus(GAINS, SMALL)))
    assert kind == "no more than its control"
    assert verdict.startswith("no more than its control noise (-0.0")
    kind, verdict = gated(plus(TEN, GAINS, 2.0))  # the control is better, by far
    assert kind == "no more than its control"
    kind, verdict = gated(TEN, ["noise"])
    assert (kind, verdict.startswith("open: control not finished: noise (+1.4 points")) == ("open", True)


def test_seeds_that_collapse_are_counted_and_named() -> None:
    base = [*TEN[:8], 70.0, 75.0]
    found = compare(plus(base, GAINS), base)
    assert found.collapsed == {"variant": [8, 9], "base": [8, 9]}
    both = "2 of 10 seeds collapsed (8, 9); 2 of 10 seeds of base collapsed (8, 9)"
    assert found.verdict.endswith(f"; {both}")


def test_what_is_said_of_seeds_is_of_those_that_are_compared() -> None:
    """The base has more seeds, some of which collapsed or diverged."""
    base = Sample("base", dict(enumerate([*TEN, 60.0])), {11: "step 3"})
    found = judge([Pair(Sample.of("row", plus(TEN, GAINS)), base)])[0]
    assert found.verdict == judge([Pair(Sample.of("row", plus(TEN, GAINS)), Sample.of("base", TEN))])[0].verdict
    assert (found.collapsed, found.diverged) == ({}, {})


def test_seeds_that_diverge_stay_in_the_test_and_in_the_sentence() -> None:
    row = Sample("row", dict(enumerate(plus(TEN, GAINS)[:8])), {8: "step 3", 9: "step 7"})
    found = judge([Pair(row, Sample.of("base", TEN))])[0]
    assert found.verdict.endswith("; 2 of 10 seeds diverged (8, 9)")
    assert found.diverged == {"variant": {8: "step 3", 9: "step 7"}}
    assert found.shift.seeds == 10
    # the survivors all gain; the two lost ones have the ranks 9 and 10 against the sum 36 of the others
    ranked = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, -9.0, -10.0]
    assert found.wilcoxon == compare(ranked, [0.0] * 10).wilcoxon
    assert found.kind == "open"
    assert found.difference.seeds == 8
    assert found.difference.mean == pytest.approx(np.mean(GAINS[:8]))


def test_a_row_at_chance_has_learned_nothing() -> None:
    low = [10.1, 9.9, 10.4, 10.2, 10.0, 9.8, 10.3, 10.2, 10.1, 10.0]
    row = Sample("row", dict(enumerate(low)), chance=10.0)
    verdict = judge([Pair(row, Sample.of("base", TEN))])[0].verdict
    assert verdict == "nothing was learned (ACC 10.1 %, chance is 10.0 %)"
    back = judge([Pair(Sample.of("row", TEN), row)])[0].verdict
    assert back.endswith("; row learned nothing")


@pytest.mark.parametrize(("ratio", "said"), [(7e-4, True), (1e-3, False), (0.5, False)])
def test_a_signal_that_adds_next_to_nothing_says_so(ratio: float, said: bool) -> None:
    row = Sample("row", dict(enumerate(plus(TEN, SMALL))), ratio=ratio)
    verdict = judge([Pair(row, Sample.of("base", TEN))])[0].verdict
    assert verdict.endswith("; what the signal adds is 0.0007 of the labelled gradient") is said


@pytest.mark.parametrize("side", ["variant", "base"])
def test_a_row_that_undid_too_many_steps_has_no_verdict(side: str) -> None:
    undone = dict.fromkeys(range(10), 0.39)
    variant = Sample("row", dict(enumerate(plus(TEN, GAINS))), undone=undone if side == "variant" else {})
    base = Sample("base", dict(enumerate(TEN)), undone=undone if side == "base" else {})
    (found,) = judge([Pair(variant, base)])
    name = "row" if side == "variant" else "base"
    assert found.kind == "open"
    assert found.verdict.startswith(f"open: {name} undid 39 % of its steps, which were not finite: no verdict")
