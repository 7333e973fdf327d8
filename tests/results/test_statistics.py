import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from gradcast.results.statistics import (
    effect_size,
    enough_seeds,
    fewest_seeds,
    hodges_lehmann,
    holm,
    interval,
    power,
    power_of_none,
    seeds_needed,
    seeds_to_decide,
    signed_rank,
    t_test,
)


def test_interval_by_hand() -> None:
    found = interval([1.0, 2.0, 3.0])
    half = 4.302652729911275 * 1.0 / math.sqrt(3)  # t quantile with two degrees of freedom, standard deviation 1
    assert found.mean == 2
    assert found.half == pytest.approx(half)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))
    assert found.symmetric


def test_one_seed_has_no_interval() -> None:
    found = interval([5.0])
    assert (found.mean, found.low, found.high) == (5.0, -math.inf, math.inf)


def test_an_interval_of_accuracies_ends_where_accuracies_do() -> None:
    found = interval([99.9, 99.0, 90.0], (0.0, 100.0))
    whole = interval([99.9, 99.0, 90.0])
    assert whole.high > 100
    assert (found.high, found.low, found.mean) == (100.0, whole.low, whole.mean)
    assert not found.symmetric


@pytest.mark.parametrize("seeds", [1, 2, 5, 6, 10, 15, 25, 50])
def test_without_ties_the_test_is_scipys(seeds: int) -> None:
    differences = np.random.default_rng(seeds).normal(0.4, 1.0, seeds)
    assert signed_rank(differences) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue, rel=1e-9)


@pytest.mark.parametrize(
    "differences",
    [[0.5] * 5, [0.5, 0.5, 0.5, 0.5, 0.6], [1.0, -1.0, 2.0, 2.0, -3.0, 3.0, 3.0], [0.0, 0.0, 1.0, 1.0, -0.5, 2.0]],
)
def test_with_ties_every_choice_of_signs_is_counted(differences: list[float]) -> None:
    """A spelling that shares nothing: all 2^n sums of signed midranks; zeros are left out."""
    own = [value for value in differences if value]
    ranks = stats.rankdata(np.abs(own))
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign) for signs in product([0, 1], repeat=len(own))
    ]
    seen = sum(rank for rank, value in zip(ranks, own, strict=True) if value > 0)
    tail = min(np.mean([total >= seen for total in sums]), np.mean([total <= seen for total in sums]))
    assert signed_rank(np.array(differences)) == pytest.approx(min(1.0, 2 * tail))


def test_a_small_change_of_one_seed_changes_the_p_value_little() -> None:
    """With a t test five differences of 0.5 had p = 0.0625, and with one of them 0.6 p < 0.0001."""
    assert signed_rank(np.array([0.5] * 5)) == signed_rank(np.array([0.5, 0.5, 0.5, 0.5, 0.6])) == 2 / 2**5


def test_rounding_makes_no_rank() -> None:
    base = np.array([80.0, 81.0, 79.3, 80.7])
    assert signed_rank((base + 0.01) - base) == 2 / 2**4
    assert signed_rank(np.zeros(5)) == 1.0


def test_the_estimate_and_its_interval_by_hand() -> None:
    """Six differences: 21 means of pairs; at 95 % only the two outermost are the ends (P(T = 0) = 1 / 64)."""
    differences = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    means = sorted((a + b) / 2 for i, a in enumerate(differences) for b in differences[i:])
    found = hodges_lehmann(differences)
    assert (found.value, found.low, found.high) == (means[10], means[0], means[-1])
    assert hodges_lehmann(differences[:5]).low == -math.inf  # 2 / 2^5 is more than 5 %
    ten = hodges_lehmann(np.arange(10.0))
    all_means = sorted((a + b) / 2 for a in range(10) for b in range(a, 10))
    assert (ten.low, ten.high) == (all_means[8], all_means[-9])  # the table's critical value for n = 10 is 8


@pytest.mark.parametrize("confidence", [0.95, 1 - 0.05 / 12])
def test_the_interval_holds_the_shifts_that_the_test_does_not_reject(confidence: float) -> None:
    differences = np.random.default_rng(1).normal(0.5, 1.0, 12)
    found = hodges_lehmann(differences, confidence)
    inside, outside = [found.low + 1e-4, found.high - 1e-4], [found.low - 1e-4, found.high + 1e-4]
    assert all(signed_rank(differences - shift) > 1 - confidence for shift in inside)
    assert all(signed_rank(differences - shift) <= 1 - confidence for shift in outside)


def test_the_t_test_is_scipys() -> None:
    differences = np.random.default_rng(0).normal(1.0, 2.0, 8)
    assert t_test(differences) == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue)
    assert t_test(np.array([1.0])) == t_test(np.array([1.0, 1.0])) == 1.0
    assert effect_size(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) == pytest.approx(3 / math.sqrt(2.5))
    assert (effect_size(np.array([1.0, 1.0])), effect_size(np.zeros(3))) == (None, 0.0)


def test_a_verdict_needs_ten_seeds_and_a_test_that_can_reject() -> None:
    assert [enough_seeds(seeds, 1) for seeds in (5, 9, 10)] == [False, False, True]
    assert enough_seeds(10, 25)  # 2^-9 = 0.00195 < 0.05 / 25
    assert not enough_seeds(10, 26)
    assert [fewest_seeds(family) for family in (0, 1, 25, 26, 52)] == [10, 10, 10, 11, 12]


@pytest.mark.parametrize(
    ("size", "seeds"),
    [
        (0.2, 199),
        (-0.5, 34),
        (0.8, 15),
        (1.0, 10),
        (2.0, 10),
        (math.inf, 10),
        (-math.inf, 10),
    ],  # finite: printed tables
)
def test_seeds_needed_are_the_tables_and_no_fewer_than_a_verdict_needs(size: float, seeds: int) -> None:
    assert seeds_needed(size) == seeds


@pytest.mark.parametrize("family", [2, 12, 40])
def test_seeds_needed_are_those_of_the_corrected_level(family: int) -> None:
    needed = seeds_needed(0.5, family)
    assert isinstance(needed, int)
    assert needed > 34
    assert power(0.5, needed, 0.05 / family) >= 0.8 > power(0.5, needed - 1, 0.05 / family)


def test_seeds_needed_at_the_ends() -> None:
    assert seeds_needed(None) is None
    assert seeds_needed(0.0) is None
    assert seeds_needed(0.0887) == 1000  # (1.96 + 0.84)² / 0.0887² = 997, and a little for the unknown spread
    assert seeds_needed(0.0885) == "more than 1000"
    assert seeds_needed(1e-15) == "more than 1000"


@pytest.mark.parametrize(("size", "limit", "seeds"), [(0.0, 1.0, 12), (0.3, 1.0, 20), (0.1, 0.4, 60)])
def test_power_of_none_is_how_often_an_interval_lies_inside_the_limits(size: float, limit: float, seeds: int) -> None:
    samples = np.random.default_rng(0).normal(size, 1.0, (40_000, seeds))
    half = stats.t.ppf(0.975, seeds - 1) * samples.std(1, ddof=1) / math.sqrt(seeds)
    share = np.mean(np.abs(samples.mean(1)) + half < limit)
    assert power_of_none(size, limit, seeds) == pytest.approx(share, abs=0.04)  # the error of the deviation


def test_seeds_decide_by_an_effect_or_by_its_absence() -> None:
    noise = np.array([-1.0, 1.0] * 5)
    spread = float(noise.std(ddof=1))
    assert seeds_to_decide(noise + 1.5 * spread, 1.0) == seeds_needed(1.5) == 10
    large = seeds_to_decide(10 * noise + 5, 1.0, 12)
    assert large == seeds_needed(5 / (10 * spread), 12)  # no interval around 5 lies inside ±1
    small = seeds_to_decide(noise + 0.01, 1.0)
    assert isinstance(small, int)
    assert power_of_none(0.01 / spread, 1 / spread, small) >= 0.8 > power_of_none(0.01 / spread, 1 / spread, small - 1)
    assert seeds_needed(0.01 / spread) == "more than 1000" == seeds_to_decide(100 * noise, 1.0)
    assert seeds_to_decide(np.full(10, 2.0), 1.0) is None
    assert seeds_to_decide(np.array([2.0]), 1.0) is None


@pytest.mark.parametrize(("size", "seeds"), [(0.7, 5), (1.5, 4), (0.4, 30)])
def test_power_is_how_often_the_test_finds_it(size: float, seeds: int) -> None:
    samples = np.random.default_rng(0).normal(size, 1.0, (40_000, seeds))
    found = stats.ttest_1samp(samples, 0.0, axis=1)
    share = np.mean((found.pvalue < 0.05) & (found.statistic > 0))
    assert power(size, seeds) == pytest.approx(share, abs=0.01)  # four standard errors of the share


def test_power_rises_with_seeds_and_size_and_is_a_chance() -> None:
    table = np.array([[power(size, seeds) for seeds in (2, 3, 5, 10, 100, 1000)] for size in (0.01, 0.5, 5, 50, 1e12)])
    assert ((table >= 0) & (table <= 1)).all()
    assert (np.diff(table, axis=0) >= -1e-12).all()
    assert (np.diff(table, axis=1) >= -1e-12).all()


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.2 times 4, 3, 2, 1 is 0.04, 0.06, 0.06, 0.2: none below its predecessor.
    assert holm([0.03, 0.01, 0.2, 0.02]) == pytest.approx([0.06, 0.04, 0.2, 0.06])
    assert holm([0.02, 0.03]) == pytest.approx([0.04, 0.04])  # 0.03 alone would stay, but follows 0.04
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])
    assert holm([0.6, 0.6]) == [1.0, 1.0]
    assert holm([0.3]) == [0.3]
    assert holm([]) == []
