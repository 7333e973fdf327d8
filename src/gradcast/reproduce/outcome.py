"""What came out of an experiment, beside what was published."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from gradcast.devices import Arithmetic
from gradcast.errors import GradcastError
from gradcast.reproduce.experiment import Experiment, Item
from gradcast.reproduce.trained import MEASURES, Trained, trained
from gradcast.results.statistics import CONFIDENCE, Interval, Paired, compare, correct, interval

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
    """Every row, with what is trained or ``known`` of it; p-values are corrected for their number."""
    own, failed = dict[str, Trained | None](), dict(failed or {})
    for item in experiment.items:
        try:
            own[item.name] = trained(item, seeds, dtype, out)
        except GradcastError as error:  # a damaged file; the other rows are whole
            own[item.name], failed[item.name] = None, f"{FAILED}: {error}"
    for name, before in (known or {}).items():
        here = own[name]
        own[name] = before if here is None else here.with_seeds_of(before)  # if they saw the same data
    found = [_line(item, experiment, own, failed.get(item.name, "")) for item in experiment.items]
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
    if found.scheduled and len(found.seeds) > 1:  # published tables of this kind give the deviation over class orders
        ours |= {"deviation": _single(float(np.std(found.values("acc"), ddof=1)))}
    ours |= {name: interval(values) for name, values in found.cost.items()}
    other = own.get(item.against) if base is not None else None
    same = other is not None and other.source == found.source
    common = [seed for seed in found.seeds if other is not None and same and seed in other.seeds]
    if other is None or not common:
        return Line(item, ours, figures, published_gain=gain, state=failure, trained=found)
    variant, first = (each.values("acc", common) for each in (found, other))
    noise = None if gain is None else noise_of(gain, variant, first)
    return Line(item, ours, figures, compare(variant, first), gain, noise, failure, found)


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
