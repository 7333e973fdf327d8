"""What came out of an experiment, beside what was published."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from gradcast.devices import Arithmetic
from gradcast.errors import GradcastError
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.drawn_cells import drawn_cells
from gradcast.reproduce.experiment import Experiment, Item
from gradcast.reproduce.trained import DEVIATION, MEASURES, UNKNOWN, Trained, trained
from gradcast.results.measures import BOUNDS
from gradcast.results.statistics import CONFIDENCE, Interval, interval
from gradcast.results.verdict import Pair, Paired, judge
from gradcast.specs.controls import controls_of, role
from gradcast.specs.spec import Control, Setting

FAILED = "failed"  # begins what is said of a row that could not be trained, or read
# pairs: two runs with the same seed differ by that much; seeds: two runs with different seeds do; beyond: neither
Noise = Literal["pairs", "seeds", "beyond"]


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
    trained: Trained | None = None

    @property
    def origin(self) -> str:
        """Where and when it was trained."""
        return "" if self.trained is None else self.trained.origin

    def as_dict(self) -> dict[str, object]:
        """The row by name, for JSON."""
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
            "trained": None if self.trained is None else self.trained.as_dict(),
        }


def lines(
    experiment: Experiment,
    seeds: Sequence[int],
    dtype: Arithmetic,
    out: Path,
    *,
    failed: Mapping[str, str] | None = None,
    known: Mapping[str, Trained] | None = None,
) -> list[Line]:
    """Every row, with what is trained or ``known`` of it; the family of verdicts is all rows that make a claim."""
    own, failed = dict[str, Trained | None](), dict(failed or {})
    drawn = drawn_cells(experiment, dtype)
    for item in experiment.items:
        try:
            own[item.name] = trained(item, seeds, dtype, out, drawn)
            if own[item.name] is None and item.setting is not None and item.name not in failed:
                failed[item.name] = Cell(item.setting, dtype).failure(out)
        except GradcastError as error:  # a damaged file; the other rows are whole
            own[item.name], failed[item.name] = None, f"{FAILED}: {error}"
    for name, before in (known or {}).items():
        here = own[name]
        own[name] = before if here is None else here.with_seeds_of(before)  # if they saw the same data
    found = [_line(item, experiment, own, failed.get(item.name, "")) for item in experiment.items]
    pairs = {line.item.name: pair for line in found if (pair := _pair(line.item, experiment, own)) is not None}
    keys = {name: tuple(_cell(side, own) for side in (name, experiment.item(name).against)) for name in pairs}
    several = {key: pairs[name] for name, key in reversed(keys.items())}  # two names of one comparison are one claim
    judged = dict(zip(several, judge(list(several.values())), strict=True))
    return [replace(line, paired=judged.get(keys.get(line.item.name, ()))) for line in found]


def _cell(name: str, own: Mapping[str, Trained | None]) -> str:
    """What was trained for a row."""
    found = own[name]
    return name if found is None or not found.cell else found.cell


class _Marked(NamedTuple):
    """A row that can be run."""

    name: str
    setting: Setting
    control: Control


def _pair(item: Item, experiment: Experiment, own: Mapping[str, Trained | None]) -> Pair | None:
    """The row and the one it is compared with, where both saw the same data and share seeds."""
    found, base = own[item.name], own.get(item.against)
    if found is None or base is None or item.setting is None or not _common(found, base):
        return None
    labels = {other.name: other.label for other in experiment.items}
    rows = [_Marked(other.name, other.setting, other.control) for other in experiment.items if other.setting]
    marked = _Marked(item.name, item.setting, item.control)
    names = controls_of(marked, rows)
    ready = {name: trained for name in names if (trained := own[name]) is not None and _common(found, trained)}
    controls = [trained.sample(labels[name]) for name, trained in ready.items()]
    missing = [labels[name] for name in names if name not in ready]
    return Pair(found.sample(item.label), base.sample(labels[item.against]), role(marked), controls, missing)


def _common(one: Trained, another: Trained) -> list[int]:
    """Trained seeds that both have of the same data."""
    return [seed for seed in one.seeds if seed in another.seeds] if one.source == another.source else []


def _line(item: Item, experiment: Experiment, own: Mapping[str, Trained | None], failure: str) -> Line:
    base = experiment.item(item.against) if item.against else None
    figures = (item.published or {}) if not item.pretrained or _starts_from_weights(item) else {}
    gain = None
    if base is not None and base.published and "acc" in figures:
        gain = round(figures["acc"] - base.published["acc"], 6)
    found = own[item.name]
    if found is None:
        state = item.missing or failure or "not run"
        return Line(item, {}, figures, published_gain=gain, state=state)
    names = [name for name in MEASURES if not (found.scheduled and name == "fwt")]
    ours = {name: interval(found.values(name), _bounds(name)) for name in names}
    if found.scheduled and len(found.seeds) > 1:  # published: the population's deviation over class orders
        ours |= {DEVIATION: _single(float(np.std(found.values("acc"))))}
    if found.unknown:
        ours |= {UNKNOWN: interval(list(found.unknown.values()), (0.0, 100.0))}
    ours |= {name: interval(values) for name, values in found.cost.items()}
    other = own.get(item.against) if base is not None else None
    common = [] if other is None else _common(found, other)
    if other is None or not common:
        return Line(item, ours, figures, published_gain=gain, state=failure, trained=found)
    variant, first = (each.values("acc", common) for each in (found, other))
    noise = None if gain is None else noise_of(gain, variant, first)
    return Line(item, ours, figures, None, gain, noise, failure, found)


def _bounds(name: str) -> tuple[float, float]:
    own, scale = MEASURES[name]
    low, high = BOUNDS[own]
    return scale * low, scale * high


def _single(value: float) -> Interval:
    return Interval(value, -np.inf, np.inf, 1)


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
