"""Rows with few labels: published tables give their best error, so ours is put beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gradcast.reproduce.outcome import Line, noise_of
from gradcast.results.measures import BOUNDS
from gradcast.results.statistics import interval


def with_errors(lines: Sequence[Line]) -> list[Line]:
    """The same lines; those with few labels have errors, and gains of errors, and no transfer between tasks."""
    best = {line.item.name: {} if line.trained is None else line.trained.best_errors for line in lines}
    published = {line.item.name: line.published.get("error") for line in lines}
    return [_with_errors(line, best, published) for line in lines]


def _with_errors(line: Line, best: Mapping[str, Mapping[int, float]], published: Mapping[str, float | None]) -> Line:
    own, base = published[line.item.name], published.get(line.item.against)
    gain = None if own is None or base is None else round(base - own, 6)  # points of accuracy
    line = line if gain is None else replace(line, published_gain=gain)
    variant = best[line.item.name]
    if not variant:
        return line
    ours = {name: value for name, value in line.ours.items() if name not in ("bwt", "fwt")}
    line = replace(line, ours=ours | {"error": interval(list(variant.values()), BOUNDS["best_error"])})
    first = best.get(line.item.against, {})
    common = [seed for seed in variant if seed in first]
    if gain is None or not common:
        return line
    return replace(line, noise=noise_of(gain, *([-each[seed] for seed in common] for each in (variant, first))))
