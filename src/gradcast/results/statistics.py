"""What paired seeds say: mean, intervals, tests, effect size, and a verdict in plain words."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import nctdtr, ndtr, ndtri, stdtrit

CONFIDENCE = 0.95
SIGNIFICANCE = 0.05
POWER = 0.8
RESAMPLES = 9999
MOST_SEEDS = 1000
MANY = 10  # seeds from which a bootstrap interval covers about what it says
Beyond = Literal["more than 1000"]
Differences = Float[np.ndarray, " seeds"]


@dataclass(frozen=True)
class Interval:
    """Mean over seeds with its 95 % confidence interval; infinite with a single seed."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def half(self) -> float:
        """Half the interval's width: the number behind the ±."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Paired:
    """A variant against its base, seed by seed, in points of ACC (per cent)."""

    difference: Interval  # by the t distribution
    bootstrap: Interval  # of the same mean, without assuming a normal distribution
    t_test: float  # p-value of the paired t test; without any spread, which it needs, of the signed-rank test
    wilcoxon: float  # p-value of the signed-rank test
    effect_size: float | None  # mean over standard deviation of the differences; None where they have none
    seeds_needed: int | Beyond | None  # to detect such an effect; None where there is nothing to detect
    verdict: str
    t_test_holm: float | None = None  # p-values among several comparisons, see ``correct``
    wilcoxon_holm: float | None = None

    @property
    def shown(self) -> Literal[-1, 0, 1]:
        """1 where it helps, -1 where it costs, 0 where neither is shown; among several, after the correction."""
        if (self.t_test if self.t_test_holm is None else self.t_test_holm) >= SIGNIFICANCE:
            return 0
        return 1 if self.difference.mean > 0 else -1

    def as_dict(self) -> dict[str, object]:
        """By name, for JSON."""
        return asdict(self)


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % confidence interval of the mean, by the t distribution."""
    sample = np.asarray(values, dtype=float)
    mean = float(sample.mean())
    if len(sample) < 2:
        return Interval(mean, -np.inf, np.inf, len(sample))
    half = float(stdtrit(len(sample) - 1, (1 + CONFIDENCE) / 2) * sample.std(ddof=1) / np.sqrt(len(sample)))
    return Interval(mean, mean - half, mean + half, len(sample))


def compare(variant: Sequence[float], base: Sequence[float]) -> Paired:
    """Paired difference of two rows of ACC (per cent), same seeds in the same order."""
    pairs = np.array([variant, base], dtype=float)
    differences = pairs[0] - pairs[1]
    if np.ptp(differences) <= 1e-12 * np.abs(pairs).max():  # rounding is no spread
        differences[:] = differences[0]
    found = interval(differences.tolist())
    t_test, wilcoxon = _tests(differences)
    size = _effect_size(differences)
    verdict = _verdict(found) if differences.any() else "identical ACC on every seed"
    if size is None and len(differences) > 1 and t_test >= SIGNIFICANCE:
        verdict = f"no measurable effect ({found.mean:+.2f} points on each of {found.seeds} seeds: run more)"
    return Paired(
        difference=found,
        bootstrap=bootstrap(differences),
        t_test=t_test,
        wilcoxon=wilcoxon,
        effect_size=size,
        seeds_needed=seeds_needed(size),
        verdict=verdict,
    )


def bootstrap(differences: Differences) -> Interval:
    """Mean and its bias-corrected and accelerated bootstrap interval; the same numbers give the same interval."""
    seeds = len(differences)
    if seeds < 2 or not np.ptp(differences):
        return interval(differences.tolist())
    mean = differences.mean()
    draws = np.random.default_rng(0).integers(0, seeds, (RESAMPLES, seeds))
    means = differences[draws].mean(1)
    bias = ndtri(((means < mean).mean() + (means <= mean).mean()) / 2)
    deviations = differences - mean
    acceleration = (deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5)
    shifted = bias + ndtri([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    low, high = np.quantile(means, ndtr(bias + shifted / (1 - acceleration * shifted)))
    return Interval(float(mean), float(low), float(high), seeds)


def power(effect_size: float, seeds: int) -> float:
    """Chance that a paired t test, two-sided at 5 %, finds an effect of this size, with the right sign."""
    centre = min(abs(effect_size) * math.sqrt(seeds), 20.0)  # the series would fail beyond
    return float(1 - nctdtr(seeds - 1, centre, stdtrit(seeds - 1, (1 + CONFIDENCE) / 2)))


def seeds_needed(effect_size: float | None) -> int | Beyond | None:
    """The fewest seeds that find an effect of this size four times in five; None without an effect."""
    if not effect_size:
        return None
    candidates = range(2, MOST_SEEDS + 1)
    index = bisect_left(candidates, POWER, key=lambda seeds: power(effect_size, seeds))
    return candidates[index] if index < len(candidates) else "more than 1000"


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction: each p-value as it counts among all of them, in the order given."""
    raw = np.asarray(p_values, dtype=float)
    order = raw.argsort(kind="stable")
    corrected = np.empty_like(raw)
    corrected[order] = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1)).clip(max=1.0)
    return [float(p) for p in corrected]


def correct(several: Sequence[Paired]) -> list[Paired]:
    """Comparisons made together, with corrected p-values; a verdict that does not survive them is taken back.

    What they were corrected for before does not count.
    """
    several = [_alone(own) for own in several]
    t_tests, wilcoxons = holm([own.t_test for own in several]), holm([own.wilcoxon for own in several])
    corrected = []
    for own, t_test, wilcoxon in zip(several, t_tests, wilcoxons, strict=True):
        found = replace(own, t_test_holm=t_test, wilcoxon_holm=wilcoxon)
        withdrawn = own.shown and not found.shown
        corrected.append(replace(found, verdict=_withdrawn(own.difference, len(several))) if withdrawn else found)
    return corrected


def _alone(own: Paired) -> Paired:
    """As it was before any correction."""
    raw = replace(own, t_test_holm=None, wilcoxon_holm=None)
    return replace(raw, verdict=_verdict(own.difference)) if raw.shown and not own.shown else raw


def _tests(differences: Differences) -> tuple[float, float]:
    """p-values of the t test and of the signed-rank test; 1 where there is nothing to test."""
    if len(differences) < 2 or not differences.any():
        return 1.0, 1.0
    from scipy import stats  # here, not above: a second of start-up

    wilcoxon = float(stats.wilcoxon(differences).pvalue)
    # An accuracy counts images, so that two seeds differ by the same number of them now and then: that proves little.
    return (float(stats.ttest_1samp(differences, 0.0).pvalue) if np.ptp(differences) else wilcoxon), wilcoxon


def _effect_size(differences: Differences) -> float | None:
    if not np.ptp(differences):
        return 0.0 if len(differences) > 1 and not differences.any() else None
    return float(differences.mean() / differences.std(ddof=1))


def _verdict(found: Interval) -> str:
    if found.seeds < 2:
        return f"{found.mean:+.2f} points on one seed, which proves nothing: run more seeds"
    if found.low > 0:
        return f"helps by {_points(found.low)} to {_points(found.high)} points"
    if found.high < 0:
        return f"costs {_points(-found.high)} to {_points(-found.low)} points"
    return f"no measurable effect ({found.low:+.1f} to {found.high:+.1f} points)"


def _withdrawn(found: Interval, comparisons: int) -> str:
    sign = "+" if found.mean > 0 else "-"
    low, high = (f"{sign}{_points(abs(end))}" for end in (found.low, found.high))
    return f"no measurable effect among {comparisons} comparisons (alone: {low} to {high} points)"


def _points(value: float) -> str:
    """One decimal; two figures where that would say 0.0."""
    return f"{value:.1f}" if value >= 0.095 else f"{value:.2g}"
