"""Comparisons of plain numbers, for tests that need a verdict and no run."""

from collections.abc import Sequence

from gradcast.results.sample import Sample
from gradcast.results.verdict import Pair, Paired, judge


def pair(variant: Sequence[float], base: Sequence[float]) -> Pair:
    """A claim about seeds 0 to n - 1."""
    return Pair(Sample.of("variant", variant), Sample.of("base", base))


def compare(variant: Sequence[float], base: Sequence[float]) -> Paired:
    """A claim with no other beside it."""
    return judge([pair(variant, base)])[0]
