"""The rule of verdicts: the one place that decides whether a row helps (docs/verdicts.md explains it).

Rows are compared seed by seed. The exact signed-rank test is corrected by Holm's method for all rows of a run or table
that make a claim; a row that is better than its base must also beat its controls.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import numpy as np

from gradcast.errors import GradcastError
from gradcast.results import statistics, wording
from gradcast.results.sample import Sample
from gradcast.results.statistics import SIGNIFICANCE, Beyond, Differences, Interval, Shift
from gradcast.specs.controls import Role

SMALLEST_EFFECT = 1.0  # points: an interval inside ± this shows that there is no effect worth a claim
WEAK = 1e-3  # of the labelled gradient: what a signal adds that is shorter does next to nothing
# control: a row that makes no claim has an interval and no verdict
Kind = Literal["helps", "costs", "no effect", "no more than its control", "open", "control"]


@dataclass(frozen=True)
class Pair:
    """A row and the row it is compared with, before anything is said of them."""

    variant: Sample
    base: Sample
    role: Role = "claim"
    controls: Sequence[Sample] = ()  # rows that the variant must beat too
    pending: Sequence[str] = ()  # labels of such rows that are not finished


@dataclass(frozen=True)
class Paired:
    """A variant against its base, seed by seed, in points of ACC (per cent)."""

    shift: Shift  # Hodges-Lehmann difference; of a claim with the simultaneous interval of its family
    difference: Interval  # mean and 95 % t interval: a description
    t_test: float  # p-value, a description
    wilcoxon: float  # p-value of the exact signed-rank test
    wilcoxon_holm: float | None  # the same among the family; None for rows that are not in it
    family: int  # claims of the run or table
    effect_size: float | None  # mean over standard deviation of the differences; None where they have none
    seeds_needed: int | Beyond | None  # guessed from the effect seen, at the corrected level
    kind: Kind
    verdict: str
    collapsed: Mapping[str, list[int]] = field(default_factory=dict)  # seeds of "variant" and "base"
    diverged: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # the same, with the reason

    @property
    def estimate(self) -> Interval:
        """What pictures show: the Hodges-Lehmann difference, or mean and t interval where so few seeds have none."""
        own = self.shift
        return Interval(own.value, own.low, own.high, own.seeds) if math.isfinite(own.low) else self.difference

    def as_dict(self) -> dict[str, object]:
        """By name, for JSON."""
        return asdict(self)


def judge(pairs: Sequence[Pair], elsewhere: Sequence[float] = ()) -> list[Paired]:
    """What the pairs of one run or table say; ``elsewhere`` are p-values of further claims of the same family."""
    differences = [_differences(pair.variant, pair.base) for pair in pairs]
    raw = [statistics.signed_rank(own) for own in differences]
    family = [place for place, pair in enumerate(pairs) if pair.role == "claim" and _tested(differences[place])]
    corrected = statistics.holm([*(raw[place] for place in family), *elsewhere])
    holm = dict(zip(family, corrected, strict=False))
    size = len(corrected)
    return [
        _judged(_on_common_seeds(pair), own, p, holm.get(place), size)
        for place, (pair, own, p) in enumerate(zip(pairs, differences, raw, strict=True))
    ]


def _on_common_seeds(pair: Pair) -> Pair:
    """What else is said of both rows, as collapsed seeds, is of the seeds that are compared."""
    common = pair.variant.common_seeds(pair.base)
    return replace(pair, variant=pair.variant.only(common), base=pair.base.only(common))


def _judged(pair: Pair, differences: Differences, p: float, holm: float | None, family: int) -> Paired:
    confidence = 1 - SIGNIFICANCE / (1 if holm is None else family)
    shift = statistics.hodges_lehmann(differences, confidence)
    alive = _survivors(pair)
    mean = statistics.interval(alive.tolist())
    identical = len(differences) > 1 and not differences.any()
    kind, verdict = _verdict(pair, shift, mean, holm, family, identical=identical)
    size = statistics.effect_size(alive)
    sides = {"variant": pair.variant, "base": pair.base}
    return Paired(
        shift=shift,
        difference=mean,
        t_test=statistics.t_test(alive),
        wilcoxon=p,
        wilcoxon_holm=holm,
        family=family,
        effect_size=size,
        seeds_needed=statistics.seeds_needed(size, family),
        kind=kind,
        verdict=verdict if identical else "; ".join([verdict, *_notes(pair)]),
        collapsed={name: own.collapsed for name, own in sides.items() if own.collapsed},
        diverged={name: dict(own.diverged) for name, own in sides.items() if own.diverged},
    )


def _verdict(
    pair: Pair, shift: Shift, mean: Interval, holm: float | None, family: int, *, identical: bool
) -> tuple[Kind, str]:
    for own in (pair.variant, pair.base):
        if own.trained_in_part:
            return "open", wording.trained_in_part(own)
    if pair.variant.at_chance:
        return "open", wording.nothing_learned(pair.variant)
    if identical:
        return "no effect", "identical ACC on every seed"
    if pair.role != "claim":
        return "control", wording.no_claim(pair.role, shift, mean)
    if holm is None or not statistics.enough_seeds(shift.seeds, family):
        return "open", wording.few_seeds(shift, mean, family)
    if holm < SIGNIFICANCE and shift.value < 0:
        return "costs", wording.costs(shift)
    if holm < SIGNIFICANCE:
        return _gated(pair, shift)
    if shift.low > -SMALLEST_EFFECT and shift.high < SMALLEST_EFFECT:
        return "no effect", wording.no_effect(shift, SMALLEST_EFFECT)
    deciding = statistics.seeds_to_decide(_survivors(pair), SMALLEST_EFFECT, family)
    return "open", wording.open_interval(shift, deciding)


def _gated(pair: Pair, shift: Shift) -> tuple[Kind, str]:
    """A gain counts where the row also beats every control, at 5 % each."""
    if pair.pending:
        return "open", wording.control_missing(shift, pair.pending)
    for control in pair.controls:
        differences = _differences(pair.variant, control)
        beyond = statistics.hodges_lehmann(differences)
        if statistics.signed_rank(differences) >= SIGNIFICANCE or beyond.value <= 0:
            return "no more than its control", wording.no_more(control.label, beyond)
    return "helps", wording.helps(shift)


def _notes(pair: Pair) -> list[str]:
    """What else a reader must know before the verdict counts."""
    notes = [note for own, of in ((pair.variant, ""), (pair.base, pair.base.label)) for note in wording.losses(own, of)]
    if pair.base.at_chance and not pair.variant.at_chance:
        notes.append(f"{pair.base.label} learned nothing")
    ratio = pair.variant.ratio
    return [*notes, *([wording.weak(ratio)] if ratio is not None and ratio < WEAK else [])]


def _tested(differences: Differences) -> bool:
    """Whether a comparison can say anything: one seed and identical rows cannot."""
    return len(differences) > 1 and bool(differences.any())


def _differences(variant: Sample, base: Sample) -> Differences:
    """Seed by seed; a seed that diverged counts as 0 % in tests."""
    return _paired(variant, base, variant.common_seeds(base))


def _survivors(pair: Pair) -> Differences:
    """The same without seeds that diverged, for descriptions; all of them where none is left."""
    common = pair.variant.common_seeds(pair.base)
    alive = [seed for seed in common if seed in pair.variant.acc and seed in pair.base.acc]
    return _paired(pair.variant, pair.base, alive or common)


def _paired(variant: Sample, base: Sample, seeds: Sequence[int]) -> Differences:
    if not seeds:
        raise GradcastError(f"{variant.label} and {base.label} have no seed in common; run both on the same seeds")
    own, other = ([sample.acc.get(seed, 0.0) for seed in seeds] for sample in (variant, base))
    return np.round(np.subtract(own, other), statistics.ROUNDING)
