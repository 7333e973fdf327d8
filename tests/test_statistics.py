import math

import numpy as np
import pytest
from scipy import stats

from gradcast.statistics import compare, interval


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


@pytest.mark.parametrize(
    ("variant", "verdict"),
    [
        ([82.0, 83.1, 81.4], "helps by 1.8 to 2.2 points"),
        ([79.0, 78.9, 77.1], "costs"),
        ([80.5, 80.4, 80.1], "no measurable effect"),
        ([80.0, 81.0, 79.5], "identical"),
    ],
)
def test_verdicts(variant: list[float], verdict: str) -> None:
    assert compare(variant, [80.0, 81.0, 79.5]).verdict.startswith(verdict)


def test_one_pair_proves_nothing() -> None:
    assert "proves nothing" in compare([81.0], [80.0]).verdict


def test_a_constant_difference_is_certain() -> None:
    found = compare([2.0, 3.0, 4.0], [1.0, 2.0, 3.0])
    assert found.t_test == 0
    assert found.verdict == "helps by 1.0 to 1.0 points"


def test_a_tiny_effect_is_not_rounded_to_zero() -> None:
    assert compare([1.011, 1.010, 1.012], [1.0, 1.0, 1.0]).verdict == "helps by 0.0085 to 0.013 points"
