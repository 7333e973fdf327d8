"""The family of a run: all comparisons that its rows make, as its specification fixes them, and their verdicts.

A part of a published table has a file ``family.json`` with the p-values of the table's other claims, so that
a page, the table and ``gradcast compare`` say the same.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from gradcast.head_start.head_start_table import HeadStartSpec
from gradcast.results.sample import Sample
from gradcast.results.verdict import Pair, Paired, judge
from gradcast.signals.registry import NoSignalSpec
from gradcast.specs.controls import controls_of, role
from gradcast.specs.spec import Row, Spec

Judged = dict["Match", Paired]


class Match(NamedTuple):
    """Names of a row and of the row it is compared with."""

    variant: str
    base: str


def matches(spec: Spec, *, alone: bool = True) -> list[Match]:
    """Every row with the first, on the same stream, and a signal or head start with the row that lacks nothing else.

    The parts of a table are compared with the first row only (``alone`` is false).
    """
    first, *others = spec.rows
    found = []
    for row in others:
        if row.setting.stream == first.setting.stream:
            found.append(Match(row.name, first.name))
        found += [Match(row.name, twin) for twin in (twins(spec, row) if alone else ())]
    return found


def twins(spec: Spec, row: Row) -> list[str]:
    """Rows that differ from this one by nothing but the signal, or by nothing but the head start; not the first."""
    signal, ahead = {"signal": [NoSignalSpec()]}, {"head_start": HeadStartSpec()}
    lacking = [row.setting.model_copy(update=change) for change in (signal, ahead)]
    return [own.name for own in spec.rows[1:] if own.setting in lacking and own.name != row.name]


def judge_run(spec: Spec, samples: Mapping[str, Sample], elsewhere: Sequence[float] | None = None) -> Judged:
    """What the finished rows say; claims of rows that are not finished belong to the family as well.

    ``elsewhere`` are p-values of the other claims of a table that the run is part of.
    """
    wanted = matches(spec, alone=elsewhere is None)
    return judge_rows(spec, samples, samples, wanted, elsewhere or ())


def judge_unknown(
    spec: Spec, samples: Mapping[str, Sample], known: Judged, elsewhere: Sequence[float] | None = None
) -> Judged:
    """What accuracies without the task say: their claims come on top of those with it, which are the first measure."""
    return judge_rows(spec, samples, samples, matches(spec, alone=elsewhere is None), claims(known.values()))


def claims(known: Collection[Paired]) -> list[float]:
    """The p-values of all claims of the family that these belong to; 1 for those that are not among them."""
    found = {id(own): own.wilcoxon for own in known if own.wilcoxon_holm is not None}
    family = max((own.family for own in known), default=0)
    return [*found.values(), *[1.0] * (family - len(found))]


def judge_rows(
    spec: Spec,
    samples: Mapping[str, Sample],
    bases: Mapping[str, Sample],
    wanted: Sequence[Match],
    elsewhere: Sequence[float] = (),
) -> Judged:
    """The same of any rows of a specification, whose bases may lie in another run."""
    rows = {row.name: row for row in spec.rows}
    ready = [own for own in wanted if own.variant in samples and own.base in bases]
    missing = [own for own in wanted if own not in ready and role(rows[own.variant]) == "claim"]
    firsts = {own: next(other for other in ready if _same(own, other, rows, samples)) for own in ready}
    several = list(dict.fromkeys(firsts.values()))  # two names of one comparison are one claim
    pairs = [_pair(spec, rows[own.variant], samples, bases[own.base]) for own in several]
    judged = dict(zip(several, judge(pairs, [*elsewhere, *[1.0] * len(missing)]), strict=True))
    return {own: judged[first] for own, first in firsts.items()}


def _same(one: Match, other: Match, rows: Mapping[str, Row], samples: Mapping[str, Sample]) -> bool:
    """Whether two rows of one setting are compared with one base."""
    if one.base != other.base or samples[one.variant].acc != samples[other.variant].acc:
        return False
    first, second = rows[one.variant], rows[other.variant]
    return first.setting == second.setting and role(first) == role(second)


def _pair(spec: Spec, row: Row, samples: Mapping[str, Sample], base: Sample) -> Pair:
    own = samples[row.name]
    names = controls_of(row, spec.rows[1:])
    ready = [samples[name] for name in names if name in samples and samples[name].common_seeds(own)]
    labels = {other.name: other.label for other in spec.rows}
    pending = [labels[name] for name in names if name not in samples]
    return Pair(own, base, role(row), ready, pending)
