"""Finished rows by the paths that name them: a run directory, or one row of it."""

from dataclasses import dataclass
from pathlib import Path

from gradcast.errors import GradcastError
from gradcast.results.measures import measure
from gradcast.results.sample import Sample, chance, chance_without_task
from gradcast.results.stored import stored_ratio
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
        self.run.check(row.name)
        place, tasks = self.given if self.row else self.given / row.name, row.setting.stream.task_count
        diverged, facts = self.run.diverged(row.name), self.run.drawn(row.name)
        seeds = [seed for seed in self.spec.seeds if seed not in diverged]
        ratio, undone = stored_ratio(self.run, row.name), self.run.undone(row.name)

        def sample(*, unknown: bool) -> Sample | None:
            matrices = self.run.accuracies(row.name, seeds, tasks, unknown=unknown)
            if matrices is None:
                return None
            acc = {seed: 100 * measure(matrix).acc for seed, matrix in zip(seeds, matrices, strict=True)}
            blind = unknown or row.setting.evaluation.task == "unknown"
            guess = chance_without_task(facts) if blind else chance(facts)
            return Sample(row.label, acc, diverged, guess, ratio, undone)

        known, data = sample(unknown=False), str(facts["source"])
        assert known is not None
        return Finished(self.given, place, row.name, row.label, row.setting, known, data, sample(unknown=True))

    def whole(self) -> "Named":
        """The run directory that it is, or is a row of."""
        return Named(self.given.parent if self.row else self.given, self.run, self.spec, None)


@dataclass(frozen=True)
class Finished:
    """A finished row, as one side of a comparison."""

    given: Path  # the argument that named it
    place: Path
    name: str
    label: str
    setting: Setting
    sample: Sample
    data: str  # the digest of what it was trained on
    unknown: Sample | None = None  # the same without the task, where that was measured too


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
