"""What came out of an experiment, beside what was published."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from gradcast.environment import Arithmetic
from gradcast.errors import GradcastError
from gradcast.experiments.cells import ROW, Cell
from gradcast.experiments.experiment import Experiment, Item
from gradcast.measures import Measures
from gradcast.result import RowResult
from gradcast.statistics import CONFIDENCE, Interval, Paired, compare, correct, interval
from gradcast.store import RunDirectory

# Measures as published tables give them: ACC in per cent, transfer divided by the number of tasks.
MEASURES = {"acc": ("acc", 100.0), "bwt": ("bwt_ref", 1.0), "fwt": ("fwt_ref", 1.0)}

# pairs: two runs with the same seed differ by that much; seeds: two runs with different seeds do; beyond: neither
Noise = Literal["pairs", "seeds", "beyond"]


@dataclass(frozen=True)
class Trained:
    """One row's seeds, put together from wherever they lie."""

    seeds: list[int]
    measures: list[Measures]
    results: list[RowResult]  # one a seed: the result its seed is part of
    cost: dict[str, float]
    origin: str = ""  # device, version, day and commit

    def values(self, name: str) -> list[float]:
        """A measure of every seed, as published tables give it."""
        own, scale = MEASURES[name]
        return [scale * getattr(measures, own) for measures in self.measures]


@dataclass(frozen=True)
class Line:
    """A row of the table: the published figures, ours, and what separates them."""

    item: Item
    ours: Mapping[str, Interval]  # empty where nothing is trained
    paired: Paired | None = None  # against the row it is compared with, over the seeds both have
    published_gain: float | None = None  # published ACC less that of the row it is compared with
    noise: Noise | None = None  # what of ours differs by as much as the published gain, by chance
    state: str = ""  # why there is nothing, in words
    origin: str = ""  # where and when it was trained

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "name": self.item.name,
            "label": self.item.label,
            "published": dict(self.item.published or {}),
            "ours": {name: asdict(value) for name, value in self.ours.items()},
            "against": self.item.against or None,
            "paired": None if self.paired is None else self.paired.as_dict(),
            "published_gain": self.published_gain,
            "published_gain_is": self.noise,
            "state": self.state,
            "origin": self.origin,
        }


def trained(item: Item, seeds: Sequence[int], dtype: Arithmetic, out: Path) -> Trained | None:
    """What there is of a row, of the seeds asked for; None where that is nothing."""
    if item.setting is None:
        return None
    found = Cell(item.setting, dtype).results(out)
    kept = [seed for seed in seeds if seed in found]
    if not kept:
        return None
    results = [found[seed][1] for seed in kept]
    measures = [result.measures[result.seeds.index(seed)] for seed, result in zip(kept, results, strict=True)]
    return Trained(kept, measures, results, *_environment(found[kept[0]][0]))


def lines(
    experiment: Experiment,
    seeds: Sequence[int],
    dtype: Arithmetic,
    out: Path,
    *,
    rows: Sequence[str] = (),
    failed: Mapping[str, str] | None = None,
) -> list[Line]:
    """Every row (or those named), with what is trained of it; p-values are corrected for their number."""
    items = [experiment.item(name) for name in rows] if rows else list(experiment.items)
    needed = {item.name for item in items} | {item.against for item in items if item.against}
    own = {name: trained(experiment.item(name), seeds, dtype, out) for name in needed}
    found = [_line(item, experiment, own, (failed or {}).get(item.name, "")) for item in items]
    corrected = iter(correct([line.paired for line in found if line.paired is not None]))
    return [line if line.paired is None else replace(line, paired=next(corrected)) for line in found]


def _line(item: Item, experiment: Experiment, own: Mapping[str, Trained | None], failure: str) -> Line:
    base = experiment.item(item.against) if item.against else None
    comparable = not item.pretrained or _starts_from_weights(item)
    figures = item.published if comparable else None
    gain = None
    if base is not None and figures and base.published and "acc" in figures:
        gain = round(figures["acc"] - base.published["acc"], 6)
    found = own[item.name]
    if found is None:
        state = f"not yet: {item.needs}" if item.needs else failure or "not run"
        return Line(item, {}, published_gain=gain, state=state)
    ours = {name: interval(found.values(name)) for name in MEASURES}
    ours |= {name: Interval(value, -np.inf, np.inf, 1) for name, value in found.cost.items()}
    other = own.get(item.against) if base is not None else None
    common = [] if other is None else [seed for seed in found.seeds if seed in other.seeds]
    if other is None or not common:
        return Line(item, ours, published_gain=gain, origin=found.origin)
    variant, first = (_of(each, common) for each in (found, other))
    noise = None if gain is None else _noise(gain, variant, first)
    return Line(item, ours, compare(variant, first), gain, noise, origin=found.origin)


def _of(found: Trained, seeds: Sequence[int]) -> list[float]:
    by_seed = dict(zip(found.seeds, found.values("acc"), strict=True))
    return [by_seed[seed] for seed in seeds]


def _noise(gain: float, variant: Sequence[float], base: Sequence[float]) -> Noise | None:
    """A published difference is one run less another: how far apart do single runs of ours lie by chance?"""
    seeds = len(base)
    if seeds < 2:
        return None
    reach = stdtrit(seeds - 1, (1 + CONFIDENCE) / 2) * np.sqrt(1 + 1 / seeds)
    if abs(gain) <= reach * np.std(np.subtract(variant, base), ddof=1):
        return "pairs"
    apart = np.sqrt(np.var(variant, ddof=1) + np.var(base, ddof=1))
    return "seeds" if abs(gain) <= reach * apart else "beyond"


def _starts_from_weights(item: Item) -> bool:
    return item.setting is not None and bool(getattr(item.setting.model, "weights", ""))


def _environment(place: RunDirectory) -> tuple[dict[str, float], str]:
    """What a row cost, and where it comes from."""
    file = place.path / ROW / "env.json"
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        time, commit = facts["time"], facts.get("commit")
        day, version = str(time["started"])[:10], facts["versions"]["torch"]
    except (OSError, ValueError, KeyError) as error:
        raise GradcastError(f"{file} cannot be read ({error}); delete {place.path} and run again") from None
    names = {"milliseconds": "ms_per_labelled_image", "megabytes": "peak_gpu_memory_mb"}
    cost = {name: float(time[key]) for name, key in names.items() if time.get(key) is not None}
    return cost, f"{facts['device']}, torch {version}, {day}" + (f", commit {commit}" if commit else "")
