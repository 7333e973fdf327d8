"""Statistics of paired seeds: intervals, the exact signed-rank test, the Hodges-Lehmann estimate, Holm, power.

Only numbers: ``verdict`` is the one place that says what they mean.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import nctdtr, ndtr, stdtr, stdtrit

CONFIDENCE = 0.95
SIGNIFICANCE = 0.05
POWER = 0.8
FEWEST_SEEDS = 10  # of a verdict
MOST_SEEDS = 1000
ROUNDING = 9  # decimals of a point: two differences that agree to these are equal
Beyond = Literal["more than 1000"]
Bounds = tuple[float, float]
Differences = Float[np.ndarray, " seeds"]


@dataclass(frozen=True)
class Interval:
    """Mean over seeds with its 95 % t interval; infinite with a single seed."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def half(self) -> float:
        """Half the interval's width: the number behind the ±."""
        return (self.high - self.low) / 2

    @property
    def symmetric(self) -> bool:
        """Whether ± says it: an interval that was cut at a bound is longer on one side."""
        return math.isclose(self.high - self.mean, self.mean - self.low, rel_tol=1e-6, abs_tol=1e-9)


@dataclass(frozen=True)
class Shift:
    """Hodges-Lehmann estimate of a difference, with the interval that belongs to the signed-rank test."""

    value: float
    low: float
    high: float
    confidence: float
    seeds: int


def interval(values: Sequence[float], within: Bounds = (-math.inf, math.inf)) -> Interval:
    """Mean and 95 % confidence interval of the mean, by the t distribution, cut where no mean can be."""
    sample = np.asarray(values, dtype=float)
    mean = float(sample.mean())
    if len(sample) < 2:
        return Interval(mean, -np.inf, np.inf, len(sample))
    half = float(stdtrit(len(sample) - 1, (1 + CONFIDENCE) / 2) * sample.std(ddof=1) / np.sqrt(len(sample)))
    return Interval(mean, max(mean - half, within[0]), min(mean + half, within[1]), len(sample))


def signed_rank(differences: Differences) -> float:
    """Two-sided p-value of the signed-rank test, exact with ties too; zeros are left out. 1 without any difference."""
    signed = np.round(differences, ROUNDING)
    signed = signed[signed != 0]
    if not len(signed):
        return 1.0
    ranks = _doubled_ranks(np.abs(signed))
    total = int(ranks[signed > 0].sum())
    chances = _rank_sums(tuple(sorted(ranks.tolist())))
    return float(min(1.0, 2 * min(chances[: total + 1].sum(), chances[total:].sum())))


def hodges_lehmann(differences: Differences, confidence: float = CONFIDENCE) -> Shift:
    """Median of the means of all pairs of differences; with too few seeds for the confidence, the interval is infinite.

    The interval holds every shift that the signed-rank test at ``1 - confidence`` does not reject.
    """
    seeds = len(differences)
    first, second = np.triu_indices(seeds)
    means = np.sort(np.round((differences[first] + differences[second]) / 2, ROUNDING))
    cut = _cut(seeds, 1 - confidence)
    low, high = (means[cut], means[-1 - cut]) if cut >= 0 else (-np.inf, np.inf)
    return Shift(float(np.median(means)), float(low), float(high), confidence, seeds)


def t_test(differences: Differences) -> float:
    """p-value of the paired t test, a description; 1 where there is no spread to compare with."""
    spread = differences.std(ddof=1) if len(differences) > 1 else 0.0
    if not spread:
        return 1.0
    size = abs(differences.mean()) / spread * math.sqrt(len(differences))
    return float(2 * stdtr(len(differences) - 1, -size))


def effect_size(differences: Differences) -> float | None:
    """Mean over standard deviation of the differences; None where they have none."""
    if not np.ptp(differences):
        return 0.0 if len(differences) > 1 and not differences.any() else None
    return float(differences.mean() / differences.std(ddof=1))


def enough_seeds(seeds: int, family: int) -> bool:
    """Whether so many seeds can give a verdict among so many claims: the smallest p-value is 2^(1 - seeds)."""
    return seeds >= FEWEST_SEEDS and math.ldexp(1.0, 1 - seeds) <= SIGNIFICANCE / max(family, 1)


def fewest_seeds(family: int) -> int:
    """The fewest seeds that can give a verdict among so many claims."""
    return next(seeds for seeds in range(FEWEST_SEEDS, MOST_SEEDS) if enough_seeds(seeds, family))


def power(effect_size: float, seeds: int, significance: float = SIGNIFICANCE) -> float:
    """Chance that a two-sided paired t test finds an effect of this size, with the right sign."""
    centre = min(abs(effect_size) * math.sqrt(seeds), 20.0)  # the series would fail beyond
    return float(1 - nctdtr(seeds - 1, centre, stdtrit(seeds - 1, 1 - significance / 2)))


def seeds_needed(effect_size: float | None, family: int = 1) -> int | Beyond | None:
    """The fewest seeds that find an effect of this size among so many claims four times in five; None without one."""
    if not effect_size:
        return None
    return _fewest(lambda seeds, level: power(effect_size, seeds, level), family)


def seeds_to_decide(differences: Differences, limit: float, family: int = 1) -> int | Beyond | None:
    """The fewest seeds that give a verdict four times in five, if these are like all: that there is an effect, or none.

    None where seeds do not differ.
    """
    spread, mean = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0, float(differences.mean())
    if not spread:
        return None
    return _fewest(
        lambda seeds, level: max(
            power(mean / spread, seeds, level), power_of_none(mean / spread, limit / spread, seeds, level)
        ),
        family,
    )


def power_of_none(effect_size: float, limit: float, seeds: int, significance: float = SIGNIFICANCE) -> float:
    """Chance that the t interval lies inside ± ``limit``, both in standard deviations; their error is left out."""
    reach, root = stdtrit(seeds - 1, 1 - significance / 2), math.sqrt(seeds)
    above, below = (ndtr((limit + sign * effect_size) * root - reach) for sign in (-1, 1))
    return max(float(above + below - 1), 0.0)


def _fewest(chance: Callable[[int, float], float], family: int) -> int | Beyond:
    """Seeds from which on the chance, which rises with them, is large enough at the corrected level."""
    candidates = range(fewest_seeds(family), MOST_SEEDS + 1)
    index = bisect_left(candidates, POWER, key=lambda seeds: chance(seeds, SIGNIFICANCE / max(family, 1)))
    return candidates[index] if index < len(candidates) else "more than 1000"


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: each p-value as it counts among all of them, in the order given."""
    raw = np.asarray(p_values, dtype=float)
    order = raw.argsort(kind="stable")
    corrected = np.empty_like(raw)
    corrected[order] = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1)).clip(max=1.0)
    return [float(p) for p in corrected]


def _doubled_ranks(sizes: Differences) -> np.ndarray:
    """Twice the ranks, whole numbers; equal sizes share the mean of theirs."""
    _, place, count = np.unique(sizes, return_inverse=True, return_counts=True)
    last = count.cumsum()
    ranks: np.ndarray = (2 * last - count + 1)[place]
    return ranks


@lru_cache(maxsize=512)
def _rank_sums(ranks: tuple[int, ...]) -> np.ndarray:
    """How likely each sum of positive ranks is when every sign is a fair coin."""
    chances = np.ones(1)
    for rank in ranks:
        with_it = np.concatenate([np.zeros(rank), chances])
        chances = (np.concatenate([chances, np.zeros(rank)]) + with_it) / 2
    return chances


@lru_cache(maxsize=512)
def _cut(seeds: int, significance: float) -> int:
    """How many means of pairs lie outside the interval on each side; -1 where even their whole range is too short."""
    chances = _rank_sums(tuple(range(1, seeds + 1)))
    return int(np.searchsorted(chances.cumsum(), significance / 2 * (1 + 1e-9), side="right")) - 1
