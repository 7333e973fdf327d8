import math

import numpy as np
import pytest
from scipy import stats

from gradcast.results.statistics import bootstrap, compare, correct, holm, interval, power, seeds_needed


def test_interval_by_hand() -> None:
    found = interval([1.0, 2.0, 3.0])
    half = 4.302652729911275 * 1.0 / math.sqrt(3)  # t quantile with two degrees of freedom, standard deviation 1
    assert found.mean == 2
    assert found.half == pytest.approx(half)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))


def test_one_seed_has_no_interval() -> None:
    found = interval([5.0])
    assert (found.mean, found.low, found.high) == (5.0, -math.inf, math.inf)


def test_tests_are_scipys_on_the_pairs() -> None:
    generator = np.random.default_rng(0)
    base = generator.normal(80, 3, 8)
    variant = base + generator.normal(1, 0.5, 8)
    found = compare(list(variant), list(base))
    assert found.t_test == pytest.approx(stats.ttest_rel(variant, base).pvalue)
    assert found.wilcoxon == pytest.approx(stats.wilcoxon(variant, base).pvalue)
    assert found.difference.mean == pytest.approx(np.mean(variant - base))


def test_a_comparison_by_hand() -> None:
    """Differences 1, 2, 3, 4, 5: mean 3, standard deviation sqrt(2.5), t = 3 / sqrt(0.5) = 4.2426."""
    found = compare([81.0, 83.0, 82.0, 85.0, 86.0], [80.0, 81.0, 79.0, 81.0, 81.0])
    half = 2.7764451051977987 * math.sqrt(0.5)  # t quantile with four degrees of freedom
    assert (found.difference.low, found.difference.high) == pytest.approx((3 - half, 3 + half))
    assert found.effect_size == pytest.approx(1.8973665961010275)
    assert found.t_test == pytest.approx(0.013236, abs=5e-7)
    assert found.wilcoxon == 2 / 2**5  # all five signs agree: one of 32 outcomes, on either side
    assert found.verdict == "helps by 1.0 to 5.0 points"
    assert found.seeds_needed == 5


@pytest.mark.parametrize("seeds", [2, 3, 5, 20])
def test_bootstrap_is_scipys(seeds: int) -> None:
    differences = np.random.default_rng(seeds).exponential(2.0, seeds) - 1
    found = bootstrap(differences)
    theirs = stats.bootstrap(
        (differences,), np.mean, n_resamples=9999, rng=np.random.default_rng(0)
    ).confidence_interval
    close = 0.03 * (theirs.high - theirs.low)  # other draws move an end by about a hundredth of the width
    assert (found.low, found.high) == (pytest.approx(theirs.low, abs=close), pytest.approx(theirs.high, abs=close))
    assert found.mean == pytest.approx(differences.mean())
    assert bootstrap(differences) == found


def test_bootstrap_of_a_large_normal_sample_is_the_t_interval() -> None:
    differences = np.random.default_rng(0).normal(1.0, 1.0, 400)
    exact, found = interval(list(differences)), bootstrap(differences)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=0.1 * exact.half)


@pytest.mark.parametrize(
    ("size", "seeds"),
    [(0.2, 199), (-0.5, 34), (0.8, 15), (1.0, 10), (2.0, 5), (math.inf, 2), (-math.inf, 2)],  # finite: printed tables
)
def test_seeds_needed_are_the_tables(size: float, seeds: int) -> None:
    assert seeds_needed(size) == seeds


def test_seeds_needed_at_the_ends() -> None:
    assert seeds_needed(None) is None
    assert seeds_needed(0.0) is None
    assert seeds_needed(0.0887) == 1000  # (1.96 + 0.84)² / 0.0887² = 997, and a little for the unknown spread
    assert seeds_needed(0.0885) == "more than 1000"
    assert seeds_needed(1e-15) == "more than 1000"


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


def test_what_was_corrected_before_is_corrected_anew() -> None:
    seeds = np.random.default_rng(4).normal(1.0, 1.0, (7, 10))
    several = [compare(own.tolist(), [0.0] * 10) for own in seeds]
    apart = [*correct(several[:3]), *correct(several[3:])]
    assert correct(apart) == correct(several) != apart
    assert correct(apart[:1]) == correct(several[:1])


def test_a_verdict_that_does_not_survive_the_correction_is_taken_back() -> None:
    base = [80.0, 81.0, 79.0, 81.0, 81.0]
    weak = compare([81.0, 83.0, 82.0, 85.0, 86.0], base)  # p = 0.0132
    loss = compare([79.0, 79.0, 76.0, 77.0, 76.0], base)  # the same downwards
    strong = compare([85.0, 86.0, 84.0, 86.1, 86.0], base)
    same = compare(base, base)
    alone = correct([weak])[0]
    assert (alone.verdict, alone.t_test_holm) == (weak.verdict, weak.t_test)
    together = correct([weak, strong, loss, same, same])
    assert together[0].t_test_holm == pytest.approx(4 * weak.t_test)
    assert [own.verdict for own in together] == [
        "no measurable effect among 5 comparisons (alone: +1.0 to +5.0 points)",
        strong.verdict,
        "no measurable effect among 5 comparisons (alone: -5.0 to -1.0 points)",
        "identical ACC on every seed",
        "identical ACC on every seed",
    ]
    assert strong.verdict.startswith("helps by")
    assert [own.shown for own in (weak, strong, loss, same)] == [1, 1, -1, 0]
    assert [own.shown for own in together] == [0, 1, 0, 0, 0]
    assert together[1].wilcoxon_holm == pytest.approx(5 * 0.0625)
    assert together[0].difference == weak.difference


@pytest.mark.parametrize(
    ("variant", "verdict"),
    [
        ([82.0, 83.1, 81.4], "helps by 1.8 to 2.2 points"),
        ([79.0, 78.9, 77.1], "costs"),
        ([80.5, 80.4, 80.1], "no measurable effect"),
        ([80.0, 81.0, 79.5], "identical ACC"),
    ],
)
def test_verdicts(variant: list[float], verdict: str) -> None:
    assert compare(variant, [80.0, 81.0, 79.5]).verdict.startswith(verdict)


def test_noise_is_told_to_have_no_effect() -> None:
    noise = np.random.default_rng(0).normal(80, 3, (400, 2, 5))
    verdicts = [compare(list(variant), list(base)).verdict for variant, base in noise]
    silent = sum(verdict.startswith("no measurable effect") for verdict in verdicts)
    assert 0.9 <= silent / len(verdicts) < 1  # 95 % by construction


def test_one_pair_proves_nothing() -> None:
    found = compare([81.0], [80.0])
    assert "proves nothing" in found.verdict
    assert (found.t_test, found.wilcoxon, found.effect_size, found.seeds_needed) == (1.0, 1.0, None, None)
    assert (found.bootstrap.low, found.bootstrap.high) == (-math.inf, math.inf)
    assert compare([80.0], [80.0]).verdict == "identical ACC on every seed"


def test_identical_rows_have_nothing_to_detect() -> None:
    found = compare([80.0, 81.0], [80.0, 81.0])
    assert (found.t_test, found.wilcoxon, found.effect_size, found.seeds_needed) == (1.0, 1.0, 0.0, None)
    assert (found.bootstrap.low, found.bootstrap.high) == (0.0, 0.0)


@pytest.mark.parametrize("gain", [1.0, 0.01])  # 80.01 - 80 and 81.01 - 81 differ by rounding
def test_a_constant_difference_is_no_proof_before_its_sign_is_one(gain: float) -> None:
    base = [80.0, 81.0, 79.3]
    few = compare([value + gain for value in base], base)
    assert few.t_test == few.wilcoxon == 0.25  # three signs: 2 / 2**3
    assert (few.effect_size, few.seeds_needed) == (None, None)
    assert few.verdict == f"no measurable effect (+{gain:.2f} points on each of 3 seeds: run more)"
    loss = compare(base, [value + gain for value in base])
    assert loss.verdict == f"no measurable effect (-{gain:.2f} points on each of 3 seeds: run more)"
    many = compare([value + gain for value in base * 2], base * 2)
    assert many.t_test == many.wilcoxon == 2 / 2**6
    assert many.verdict == f"helps by {gain} to {gain} points"
    together = correct([many, compare(base, base)])
    assert together[0].t_test_holm == pytest.approx(2 * 2 / 2**6)
    assert together[0].shown == 0


def test_a_tiny_effect_is_not_rounded_to_zero() -> None:
    assert compare([1.011, 1.010, 1.012], [1.0, 1.0, 1.0]).verdict == "helps by 0.0085 to 0.013 points"
