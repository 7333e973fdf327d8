"""What paired seeds say: mean, interval, tests, and a verdict in plain words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import stdtrit

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """Mean over seeds with its 95 % confidence interval (t distribution); infinite with a single seed."""

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

    difference: Interval
    t_test: float  # p-value of the paired t test
    wilcoxon: float  # p-value of the signed-rank test
    verdict: str

    def as_dict(self) -> dict[str, object]:
        """By name, for JSON."""
        return asdict(self)


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % confidence interval of the mean."""
    sample = np.asarray(values, dtype=float)
    mean = float(sample.mean())
    if len(sample) < 2:
        return Interval(mean, -np.inf, np.inf, len(sample))
    half = float(stdtrit(len(sample) - 1, (1 + CONFIDENCE) / 2) * sample.std(ddof=1) / np.sqrt(len(sample)))
    return Interval(mean, mean - half, mean + half, len(sample))


def compare(variant: Sequence[float], base: Sequence[float]) -> Paired:
    """Paired difference of two rows of ACC (per cent), same seeds in the same order."""
    from scipy import stats  # here, not above: a second of start-up

    differences = np.asarray(variant, dtype=float) - np.asarray(base, dtype=float)
    found = interval(list(differences))
    if not differences.any():
        return Paired(found, 1.0, 1.0, "identical")
    if len(differences) < 2:
        return Paired(found, 1.0, 1.0, f"{found.mean:+.2f} points on one seed, which proves nothing: run more seeds")
    spread = differences.std(ddof=1) > 1e-12 * np.abs(differences).max()
    t_test = float(stats.ttest_1samp(differences, 0.0).pvalue) if spread else 0.0
    return Paired(found, t_test, float(stats.wilcoxon(differences).pvalue), _verdict(found))


def _verdict(found: Interval) -> str:
    if found.low > 0:
        return f"helps by {_points(found.low)} to {_points(found.high)} points"
    if found.high < 0:
        return f"costs {_points(-found.high)} to {_points(-found.low)} points"
    return f"no measurable effect ({found.low:+.1f} to {found.high:+.1f} points)"


def _points(value: float) -> str:
    """One decimal; two figures where that would say 0.0."""
    return f"{value:.1f}" if value >= 0.095 else f"{value:.2g}"
