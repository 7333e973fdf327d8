"""Finished rows against each other, seed by seed, within a run or across runs.

An argument names a run directory (runs/digits-1a2b3c4d) or one row of it (runs/digits-1a2b3c4d/base).

two rows               one comparison; the first is the base
two run directories    their rows of the same name; the first directory is the base
a row and a directory  every other row of the directory; the row is the base, wherever it stands
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcast.errors import GradcastError
from gradcast.results import statistics
from gradcast.results.measures import measure
from gradcast.results.quick import mark
from gradcast.results.statistics import Interval, Paired
from gradcast.runs.directory import RunDirectory
from gradcast.specs.spec import Row, Setting, Spec
from gradcast.specs.table import nearest

REMEDY = "name a run directory, as in runs/digits-1a2b3c4d, or one row of it, as in runs/digits-1a2b3c4d/base"


@dataclass(frozen=True)
class Named:
    """What an argument names: a run directory, or one row of it."""

    given: Path
    run: RunDirectory
    spec: Spec
    row: str | None

    def unfinished(self) -> list[str]:
        """The rows among those named that are not finished."""
        names = [row.name for row in self.spec.rows] if self.row is None else [self.row]
        return [name for name in names if not self.run.finished(name)]

    def rows(self) -> tuple[list["Finished"], list[str]]:
        """The finished rows that it names, and a sentence for each of them that is damaged; an error if all are."""
        found, damage = list[Finished](), list[str]()
        for row in self.spec.rows:
            if self.row in (None, row.name) and self.run.finished(row.name):
                try:
                    found.append(self._read(row))
                except GradcastError as error:
                    damage.append(str(error))
        if not found:
            raise GradcastError(damage[0])
        return found, damage

    def _read(self, row: Row) -> "Finished":
        place, tasks = self.given if self.row else self.given / row.name, row.setting.stream.tasks
        matrices = {seed: self.run.accuracy(row.name, seed, tasks) for seed in self.spec.seeds}
        acc = {seed: 100 * measure(matrix).acc for seed, matrix in matrices.items()}
        return Finished(
            self.given, place, row.name, row.label, row.setting, acc, str(self.run.drawn(row.name)["source"])
        )


@dataclass(frozen=True)
class Finished:
    """A finished row, as one side of a comparison."""

    given: Path  # the argument that named it
    place: Path
    name: str
    label: str
    setting: Setting
    acc: dict[int, float]  # per cent, by seed
    data: str  # the digest of what it was trained on


Pair = tuple[Finished, Finished]  # base and variant


@dataclass(frozen=True)
class Comparison:
    """A row against its base, over the seeds both have."""

    base: Finished
    variant: Finished
    seeds: list[int]
    paired: Paired

    @property
    def title(self) -> str:
        """Who against whom: by label, or by place where the labels are the same."""
        if self.variant.label == self.base.label:
            return f"{self.variant.place} against {self.base.place}"
        return f"{self.variant.label} against {self.base.label}"

    @property
    def difference(self) -> Interval:
        """Mean difference in points of ACC (per cent), with its 95 % confidence interval."""
        return self.paired.difference

    @property
    def verdict(self) -> str:
        """What the seeds show, in words."""
        return self.paired.verdict

    def __repr__(self) -> str:
        return f"{self.title}: {self.verdict}"

    def as_dict(self) -> dict[str, object]:
        """For --json."""
        base, variant = ({"place": str(own.place), "label": own.label} for own in (self.base, self.variant))
        return {"base": base, "variant": variant, "seeds": self.seeds, **self.paired.as_dict()}


@dataclass(frozen=True)
class Comparisons:
    """Comparisons made together, their p-values corrected for that, and sentences about what they leave out."""

    found: list[Comparison]
    left_out: list[str]
    damage: list[str]  # a sentence for every row that cannot be read
    quick: bool  # whether one of the runs is but a quick look

    def as_dict(self) -> dict[str, object]:
        """For --json."""
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
    seeds = [_common_seeds(*pair) for pair in pairs]
    raw = [
        statistics.compare([own.acc[seed] for seed in common], [against.acc[seed] for seed in common])
        for (against, own), common in zip(pairs, seeds, strict=True)
    ]
    found = [
        Comparison(*pair, common, paired)
        for pair, common, paired in zip(pairs, seeds, statistics.correct(raw), strict=True)
    ]
    left_out = list(dict.fromkeys([*unequal, *_left_out(base, variant, pairs)]))
    return Comparisons(found, left_out, damage, quick=any(mark(own.spec) for own in (base, variant)))


def locate(given: Path) -> Named:
    """The run directory or row at a path, with at least one row to compare."""
    place = given.resolve()
    path = next((path for path in (place, place.parent) if (path / "spec.toml").is_file()), None)
    if path is None:
        raise GradcastError(f"{given} {_fault(place)}; {REMEDY}")
    run, row = RunDirectory(path), None if path == place else place.name
    spec = run.spec
    names = [own.name for own in spec.rows]
    if row is not None and row not in names:
        raise GradcastError(f"there is no row {row!r} in {path.name}{nearest(row, names)}")
    named = Named(given, run, spec, row)
    if named.unfinished() == (names if row is None else [row]):
        what = "has no finished row" if row is None else "is not finished"
        raise GradcastError(f"{given} {what}; complete it: gradcast run {path / 'spec.toml'} --out {path.parent}")
    return named


def _fault(place: Path) -> str:
    if not place.exists():
        return "does not exist"
    if place.is_dir() and not any(place.iterdir()):
        return "is empty"
    return "is no run directory, it has no spec.toml"


def _pairs(base: Named, variant: Named, bases: Sequence[Finished], variants: Sequence[Finished]) -> list[Pair]:
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


def _comparable(pairs: Sequence[Pair]) -> tuple[list[Pair], list[str]]:
    """The pairs that share a stream and seeds, and why others do not; an error where none does."""
    kept, unequal = [], []
    for pair in pairs:
        try:
            _common_seeds(*pair)
            kept.append(pair)
        except GradcastError as error:
            unequal.append(str(error))
    if not kept:
        raise GradcastError(unequal[0])
    return kept, unequal


def _measured(setting: Setting) -> dict[str, object]:
    """What ACC is measured on, and how many labels there are to learn it from."""
    stream = {f"stream.{key}": value for key, value in setting.stream}
    return stream | {"evaluation.drop_last": setting.evaluation.drop_last}


def _common_seeds(base: Finished, variant: Finished) -> list[int]:
    """The seeds both have, of the same stream."""
    both = f"{variant.place} and {base.place}"
    against, own = _measured(base.setting), _measured(variant.setting)
    unequal = [f"{key} is {own[key]!r} and {against[key]!r}" for key in own if own[key] != against[key]]
    if unequal:
        raise GradcastError(f"{both} have different streams and cannot be paired: {', '.join(unequal)}")
    if base.data != variant.data:
        raise GradcastError(f"{both} were trained on different data and cannot be paired; run both on the same data")
    common = [seed for seed in base.acc if seed in variant.acc]
    if not common:
        raise GradcastError(
            f"{both} have no seed in common ({_listed(variant.acc)}; {_listed(base.acc)}); run both on the same seeds"
        )
    return common


def _left_out(base: Named, variant: Named, pairs: Sequence[Pair]) -> Iterator[str]:
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
            lacking = [seed for seed in one.acc if seed not in another.acc]
            if lacking:
                yield f"{one.given}: seeds left out, since {another.given} lacks them: {_listed(lacking)}"


def _listed(seeds: Iterable[int]) -> str:
    return ", ".join(map(str, seeds))
