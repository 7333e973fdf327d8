"""What came out of an experiment, beside what was published."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from gradcast.environment import Arithmetic
from gradcast.errors import GradcastError, told
from gradcast.experiments.cells import ROW, Cell, content
from gradcast.experiments.experiment import Experiment, Item
from gradcast.jsontext import parse_json
from gradcast.measures import Measures
from gradcast.statistics import CONFIDENCE, Interval, Paired, compare, correct, interval
from gradcast.store import RunDirectory

# Measures as published tables give them: ACC in per cent, transfer divided by the number of tasks.
MEASURES = {"acc": ("acc", 100.0), "bwt": ("bwt_ref", 1.0), "fwt": ("fwt_ref", 1.0)}
COSTS = {"milliseconds": "ms_per_labelled_image", "megabytes": "peak_gpu_memory_mb"}  # keys of env.json

# pairs: two runs with the same seed differ by that much; seeds: two runs with different seeds do; beyond: neither
Noise = Literal["pairs", "seeds", "beyond"]


@dataclass(frozen=True)
class Trained:
    """One row's seeds, put together from wherever they lie."""

    seeds: list[int]
    measures: list[Measures]
    cost: dict[str, float]
    origin: str = ""  # device, version, day and commit
    source: object = None  # digest of the labelled images
    scheduled: bool = False  # tables of many epochs a task divide transfer by one task less, and have none forward

    def values(self, name: str) -> list[float]:
        """A measure of every seed, as published tables give it."""
        own, scale = MEASURES[name]
        own = own.removesuffix("_ref") if self.scheduled else own
        return [scale * getattr(measures, own) for measures in self.measures]


@dataclass(frozen=True)
class Line:
    """A row of the table: the published figures, ours, and what separates them."""

    item: Item
    ours: Mapping[str, Interval]  # empty where nothing is trained
    published: Mapping[str, float] = field(default_factory=dict)  # of the same kind of network
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
            "published": dict(self.published),
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
    places = list({found[seed][0].path: found[seed][0] for seed in kept}.values())
    costs, origins = zip(*map(_environment, places), strict=True)
    origin, source = "; ".join(dict.fromkeys(origins)), content(places[0])["source"]
    return Trained(kept, measures, costs[0], origin, source, item.setting.schedule is not None)


def lines(
    experiment: Experiment,
    seeds: Sequence[int],
    dtype: Arithmetic,
    out: Path,
    *,
    failed: Mapping[str, str] | None = None,
) -> list[Line]:
    """Every row, with what is trained of it; p-values are corrected for their number."""
    own = {item.name: trained(item, seeds, dtype, out) for item in experiment.items}
    found = [_line(item, experiment, own, (failed or {}).get(item.name, "")) for item in experiment.items]
    corrected = iter(correct([line.paired for line in found if line.paired is not None]))
    return [line if line.paired is None else replace(line, paired=next(corrected)) for line in found]


def _line(item: Item, experiment: Experiment, own: Mapping[str, Trained | None], failure: str) -> Line:
    base = experiment.item(item.against) if item.against else None
    figures = (item.published or {}) if not item.pretrained or _starts_from_weights(item) else {}
    gain = None
    if base is not None and base.published and "acc" in figures:
        gain = round(figures["acc"] - base.published["acc"], 6)
    found = own[item.name]
    if found is None:
        state = f"not yet: {item.needs}" if item.needs else failure or "not run"
        return Line(item, {}, figures, published_gain=gain, state=state)
    ours = {name: interval(found.values(name)) for name in MEASURES if not (found.scheduled and name == "fwt")}
    ours |= {name: Interval(value, -np.inf, np.inf, 1) for name, value in found.cost.items()}
    other = own.get(item.against) if base is not None else None
    same = other is not None and other.source == found.source
    common = [seed for seed in found.seeds if other is not None and same and seed in other.seeds]
    if other is None or not common:
        return Line(item, ours, figures, published_gain=gain, state=failure, origin=found.origin)
    variant, first = (_of(each, common) for each in (found, other))
    noise = None if gain is None else noise_of(gain, variant, first)
    return Line(item, ours, figures, compare(variant, first), gain, noise, failure, found.origin)


def _of(found: Trained, seeds: Sequence[int]) -> list[float]:
    by_seed = dict(zip(found.seeds, found.values("acc"), strict=True))
    return [by_seed[seed] for seed in seeds]


def noise_of(gain: float, variant: Sequence[float], base: Sequence[float]) -> Noise | None:
    """A published difference is one run less another: how far apart do single runs of ours lie by chance?"""
    seeds = len(base)
    if seeds < 2:
        return None
    if abs(gain) <= _reach(seeds - 1) * np.std(np.subtract(variant, base), ddof=1):
        return "pairs"
    variances = np.var([variant, base], axis=1, ddof=1)
    total = variances.sum()
    freedom = (seeds - 1) * total**2 / (variances**2).sum() if total else seeds - 1  # Welch's
    return "seeds" if abs(gain) <= _reach(freedom) * np.sqrt(total) else "beyond"


def _reach(freedom: float) -> float:
    """How many standard deviations from zero 95 % of single differences lie."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _starts_from_weights(item: Item) -> bool:
    return item.setting is not None and bool(getattr(item.setting.model, "weights", ""))


def _environment(place: RunDirectory) -> tuple[dict[str, float], str]:
    """What a row cost, and where it comes from."""
    file = place.path / ROW / "env.json"
    try:
        facts = parse_json(file.read_text(encoding="utf-8"))
        time, commit = facts["time"], facts.get("commit")
        day, version = str(time["started"])[:10], facts["versions"]["torch"]
        device = facts["device"]
        cost = {name: float(time[key]) for name, key in COSTS.items() if time.get(key) is not None}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise GradcastError(f"{file} cannot be read ({told(error)}); delete {place.path} and run again") from None
    return cost, f"{device}, torch {version}, {day}" + (f", commit {commit}" if commit else "")
