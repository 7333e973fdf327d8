"""Finished rows against each other, seed by seed, within a run or across runs.

An argument names a run directory (runs/digits-1a2b3c4d) or one row of it (runs/digits-1a2b3c4d/base).

two rows               one comparison; the first is the base
two run directories    their rows of the same name; the first directory is the base
a row and a directory  every other row of the directory; the row is the base, wherever it stands

Verdicts belong to a family: that of the run where it makes the comparison itself, else all rows of the directory that
could be compared with the same base, whichever of them are asked for.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcast.errors import GradcastError
from gradcast.results.family import Judged, Match, claims, judge_rows, judge_run, judge_unknown
from gradcast.results.finished_rows import Finished, Named, locate
from gradcast.results.quick import mark
from gradcast.results.statistics import Interval
from gradcast.results.verdict import Pair, Paired, judge
from gradcast.specs.differences import differing
from gradcast.specs.spec import Setting

Sides = tuple[Finished, Finished]  # base and variant


@dataclass(frozen=True)
class Comparison:
    """A row against its base, over the seeds both have."""

    base: Finished
    variant: Finished
    seeds: list[int]
    paired: Paired
    unknown: Paired | None = None  # the same without the task, where both rows have that

    @property
    def title(self) -> str:
        """Who against whom: by label, or by place where the labels are the same."""
        if self.variant.label == self.base.label:
            return f"{self.variant.place} against {self.base.place}"
        return f"{self.variant.label} against {self.base.label}"

    @property
    def difference(self) -> Interval:
        """Mean difference in points of ACC (per cent), with its 95 % t interval: a description."""
        return self.paired.difference

    @property
    def verdict(self) -> str:
        """What the seeds show, in words."""
        return self.paired.verdict

    def __repr__(self) -> str:
        return f"{self.title}: {self.verdict}"

    @property
    def settings(self) -> dict[str, list[str]]:
        """Settings that differ, each with its value in the base and in the variant."""
        return differing([self.base.setting, self.variant.setting])

    def as_dict(self) -> dict[str, object]:
        """Everything by name, for ``--json``."""
        base, variant = ({"place": str(own.place), "label": own.label} for own in (self.base, self.variant))
        without = {} if self.unknown is None else {"unknown_task": self.unknown.as_dict()}
        facts = {"base": base, "variant": variant, "seeds": self.seeds, "settings": self.settings}
        return facts | self.paired.as_dict() | without


@dataclass(frozen=True)
class Comparisons:
    """Comparisons made together, their p-values corrected for that, and sentences about what they leave out."""

    found: list[Comparison]
    left_out: list[str]
    damage: list[str]  # a sentence for every row that cannot be read
    quick: bool  # whether one of the runs is but a quick look

    def as_dict(self) -> dict[str, object]:
        """Everything by name, for ``--json``."""
        found = [own.as_dict() for own in self.found]
        return {"comparisons": found, "left_out": self.left_out, "damage": self.damage, "quick": self.quick}


def compare(first: Path, second: Path) -> Comparisons:
    """Pair what two arguments name; the first is the base, or a row beside a whole directory."""
    base, variant = locate(first), locate(second)
    if base.row is None and variant.row is not None:
        base, variant = variant, base
    (bases, flaws), (variants, others) = base.rows(), variant.rows()
    damage = list(dict.fromkeys([*flaws, *others]))
    together = _pairs(base, variant, bases, variants)
    if not together:
        raise GradcastError(damage[0] if damage else _missing(base, variant))
    pairs, unequal = _comparable(together)
    judged = _judged(base, variant, pairs)
    found = [Comparison(*pair, _common_seeds(*pair), *own) for pair, own in zip(pairs, judged, strict=True)]
    left_out = list(dict.fromkeys([*unequal, *_left_out(base, variant, pairs)]))
    return Comparisons(found, left_out, damage, quick=any(mark(own.spec) for own in (base, variant)))


def _judged(base: Named, variant: Named, pairs: Sequence[Sides]) -> list[tuple[Paired, Paired | None]]:
    """Verdicts in the family of the run, or of all rows that could be compared with the same base.

    Those with the task come first; those without it are corrected for both.
    """
    wanted = [Match(own.name, against.name) for against, own in pairs]
    known, unknown = _verdicts(base, variant, pairs, wanted)
    return [(known[match], unknown.get(match)) for match in wanted]


def _verdicts(base: Named, variant: Named, pairs: Sequence[Sides], wanted: Sequence[Match]) -> tuple[Judged, Judged]:
    if base.row is None:  # rows of the same name in two runs
        known = judge([Pair(own.sample, against.sample) for against, own in pairs])
        both = {
            match: Pair(own.unknown, against.unknown)
            for match, (against, own) in zip(wanted, pairs, strict=True)
            if own.unknown is not None and against.unknown is not None
        }
        unknown = judge(list(both.values()), claims(known))
        return dict(zip(wanted, known, strict=True)), dict(zip(both, unknown, strict=True))
    spec, rows = variant.spec, variant.whole().rows()[0]
    samples = {row.name: row.sample for row in rows}
    without = {row.name: row.unknown for row in rows if row.unknown is not None}
    if base.run.path == variant.run.path:
        elsewhere = variant.run.elsewhere()
        found = judge_run(spec, samples, elsewhere)
        if all(match in found for match in wanted):
            return found, judge_unknown(spec, without, found, elsewhere)
    (against, *_), asked = (pair[0] for pair in pairs), {own.name for _, own in pairs}
    others = [(against, row) for row in rows if row.name not in asked and not _same(against, row)]
    family = [*wanted, *(Match(row.name, against.name) for _, row in _comparable(others, strict=False)[0])]
    found = judge_rows(spec, samples, {against.name: against.sample}, family)
    if against.unknown is None:
        return found, {}
    return found, judge_rows(spec, without, {against.name: against.unknown}, family, claims(found.values()))


def _same(one: Finished, another: Finished) -> bool:
    return one.place.resolve() == another.place.resolve()


def _pairs(base: Named, variant: Named, bases: Sequence[Finished], variants: Sequence[Finished]) -> list[Sides]:
    """Which row is compared with which."""
    if base.row is None:
        by_name = {own.name: own for own in bases}
        return [(by_name[own.name], own) for own in variants if own.name in by_name]
    (against,) = bases
    itself = against.place.resolve() if variant.row is None else None  # a row named twice is compared with itself
    return [(against, own) for own in variants if own.place.resolve() != itself]


def _missing(base: Named, variant: Named) -> str:
    """Why there is no pair."""
    if base.row is None:
        return f"{base.given} and {variant.given} have no finished rows of the same name; name a row of each"
    return f"{variant.given} has no other finished row than {base.given}; name another run or row"


def _comparable(pairs: Sequence[Sides], *, strict: bool = True) -> tuple[list[Sides], list[str]]:
    """The pairs that share a stream and seeds, and why others do not; if ``strict``, an error where none does."""
    kept, unequal = [], []
    for pair in pairs:
        try:
            _common_seeds(*pair)
            kept.append(pair)
        except GradcastError as error:
            unequal.append(str(error))
    if strict and not kept:
        raise GradcastError(unequal[0])
    return kept, unequal


def _measured(setting: Setting) -> dict[str, object]:
    """What ACC is measured on, and how many labels there are to learn it from."""
    stream = {f"stream.{key}": value for key, value in setting.stream}
    task = "unknown" if setting.evaluation.task == "unknown" else "known"
    return stream | {"evaluation.drop_last": setting.evaluation.drop_last, "evaluation.task": task}


def _common_seeds(base: Finished, variant: Finished) -> list[int]:
    """The seeds both have, of the same stream."""
    both = f"{variant.place} and {base.place}"
    against, own = _measured(base.setting), _measured(variant.setting)
    unequal = [f"{key} is {own[key]!r} and {against[key]!r}" for key in own if own[key] != against[key]]
    if unequal:
        raise GradcastError(f"{both} have different streams and cannot be paired: {', '.join(unequal)}")
    if base.data != variant.data:
        raise GradcastError(f"{both} were trained on different data and cannot be paired; run both on the same data")
    common = variant.sample.common_seeds(base.sample)
    if not common:
        own_seeds, base_seeds = (_listed(side.sample.seeds) for side in (variant, base))
        raise GradcastError(f"{both} have no seed in common ({own_seeds}; {base_seeds}); run both on the same seeds")
    return common


def _left_out(base: Named, variant: Named, pairs: Sequence[Sides]) -> Iterator[str]:
    """What was there and not compared."""
    for own, other in ((base, variant), (variant, base)):
        if own.row is None and own.unfinished():
            yield f"{own.given}: not finished and left out: {', '.join(own.unfinished())}"
        if own.row is None and other.row is None:
            theirs = {row.name for row in other.spec.rows}
            alone = [row.name for row in own.spec.rows if row.name not in theirs]
            if alone:
                yield f"{own.given}: left out, since {other.given} lacks them: {', '.join(alone)}"
    for pair in pairs:
        for one, another in (pair, pair[::-1]):
            lacking = [seed for seed in one.sample.seeds if seed not in another.sample.seeds]
            if lacking:
                yield f"{one.given}: seeds left out, since {another.given} lacks them: {_listed(lacking)}"


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, seeds))
