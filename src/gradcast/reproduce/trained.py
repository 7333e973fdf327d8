"""What there is of a row: its seeds, put together from where they were trained."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gradcast.devices import Arithmetic
from gradcast.errors import GradcastError, message_of
from gradcast.reproduce.cells import ROW, Cell, content
from gradcast.reproduce.experiment import Item
from gradcast.reproduce.task_numbers import TaskNumbers, task_numbers
from gradcast.results.measures import Measures
from gradcast.results.result import RowResult, errors
from gradcast.results.sample import Sample
from gradcast.results.sizes import H_PARAMETERS, POOL_IMAGES
from gradcast.runs.cell_key import digest
from gradcast.runs.directory import RunDirectory
from gradcast.runs.jsontext import parse_json
from gradcast.runs.reuse import REUSED
from gradcast.specs.spec import Setting

# Measures as published tables give them: ACC in per cent, transfer divided by the number of tasks.
MEASURES = {"acc": ("acc", 100.0), "bwt": ("bwt_ref", 1.0), "fwt": ("fwt_ref", 1.0)}
COSTS = {  # keys of env.json
    "milliseconds": "ms_per_labelled_image",
    "growth": "ms_more_each_task",
    "megabytes": "peak_gpu_memory_mb",
}
PER_IMAGE = "megabytes_an_image"  # the peak, divided by the labelled images of a step
DEVIATION = "deviation"  # of ACC over seeds, of the population: divided by their number
BEST = "best_error"
TASKS = "tasks"  # what happened in each, in a saved table
CLASSES = "classes_per_task"
UNKNOWN = "acc_unknown"  # ACC in per cent where test images come without their task


@dataclass(frozen=True)
class Trained:
    """What the seeds of one row have measured."""

    measures: Mapping[int, Measures]  # seed by seed
    cost: Mapping[str, Sequence[float]] = field(default_factory=dict)  # of runs of equally many seeds
    origin: str = ""  # device, version, day and commit
    cell: str = ""  # the name of what was trained
    source: object = None  # digest of the labelled images: rows that share them are compared
    data: str = ""  # of all that the seeds saw: seeds that share it are put together
    scheduled: bool = False  # tables of many epochs a task divide transfer by one task less, and have none forward
    best_errors: Mapping[int, float] = field(default_factory=dict)  # of all tests, in per cent, where labels are few
    diverged: Mapping[int, str] = field(default_factory=dict)  # seeds without a result, with the reason
    chance: float | None = None  # ACC of a guess, in per cent; files of earlier versions do not say
    ratio: float | None = None  # length of what the signals add beside the labelled gradient; the same
    undone: Mapping[int, float] = field(default_factory=dict)  # share of its steps that a seed undid, where it did
    unknown: Mapping[int, float] = field(default_factory=dict)  # ACC in per cent without the task, where there is one
    pool_images: Sequence[int] = ()  # of each pool; files of earlier versions do not say
    h_parameters: int | None = None  # of the gradient learner, where there is one; the same
    task_numbers: Mapping[int, TaskNumbers] = field(default_factory=dict)  # of rows that figures draw task by task
    classes_per_task: int | None = None  # the fewest; files of earlier versions do not say

    def sample(self, label: str) -> Sample:
        """The row as evidence of a verdict."""
        acc = dict(zip(self.seeds, self.values("acc"), strict=True))
        return Sample(label, acc, self.diverged, self.chance, self.ratio, self.undone)

    @property
    def seeds(self) -> list[int]:
        """The trained seeds in their order."""
        return sorted(self.measures)

    def values(self, name: str, seeds: Sequence[int] | None = None) -> list[float]:
        """A measure of every seed, as published tables give it."""
        own, scale = MEASURES[name]
        own = own.removesuffix("_ref") if self.scheduled else own
        return [scale * getattr(self.measures[seed], own) for seed in (self.seeds if seeds is None else seeds)]

    def with_seeds_of(self, other: "Trained") -> "Trained":
        """This, and the other's seeds that it lacks, if they are of the same setting and saw the same data."""
        if (self.cell, self.data) != (other.cell, other.data) or not _all_seeds(other) - _all_seeds(self):
            return self
        return replace(
            self,
            measures={**other.measures, **self.measures},
            cost={**other.cost, **self.cost},
            origin=joined_origins([self.origin, other.origin]),
            best_errors={**other.best_errors, **self.best_errors},
            diverged={**other.diverged, **self.diverged},
            undone={**other.undone, **self.undone},
            unknown={**other.unknown, **self.unknown},
            task_numbers={**other.task_numbers, **self.task_numbers},
        )

    def as_dict(self) -> dict[str, object]:
        """For JSON; ``saved_rows`` reads it back."""
        more: dict[int, dict[str, object]] = {seed: {} for seed in self.seeds}
        tasks = {seed: own.as_dict() for seed, own in self.task_numbers.items()}
        for name, values in ((BEST, self.best_errors), (UNKNOWN, self.unknown), (TASKS, tasks)):
            for seed, value in values.items():
                more[seed][name] = value
        seeds = {str(seed): self.measures[seed].as_dict() | more[seed] for seed in self.seeds}
        facts = {"cell": self.cell, "source": self.source, "data": self.data}
        facts |= {"chance": self.chance, "pseudo_ratio": self.ratio}
        facts |= {"diverged": {str(seed): reason for seed, reason in self.diverged.items()}}
        facts |= {POOL_IMAGES: list(self.pool_images)} if self.pool_images else {}
        facts |= {} if self.h_parameters is None else {H_PARAMETERS: self.h_parameters}
        facts |= {} if self.classes_per_task is None else {CLASSES: self.classes_per_task}
        facts |= {"undone": {str(seed): share for seed, share in self.undone.items()}} if self.undone else {}
        return {**facts, "cost": {name: list(values) for name, values in self.cost.items()}, "seeds": seeds}


def trained(
    item: Item, seeds: Sequence[int], dtype: Arithmetic, out: Path, drawn: Container[str] = ()
) -> Trained | None:
    """What was trained of a row here, of the seeds asked for; None where that is nothing.

    Steps are read of cells that are ``drawn`` task by task, and of no others: they are many.
    """
    if item.setting is None:
        return None
    cell = Cell(item.setting, dtype)
    found = cell.results(out)
    kept = [seed for seed in seeds if seed in found]
    if not kept:
        return None
    places = list({found[seed][0].path: found[seed][0] for seed in kept}.values())
    each, origins = zip(*map(_environment, places), strict=True)
    alike = [cost for cost, place in zip(each, places, strict=True) if _at_once(place) == _at_once(places[0])]
    cost = {name: [own[name] for own in alike if name in own] for name in alike[0]}
    facts = content(places[0])  # all of them saw the same
    return Trained(
        {seed: found[seed][1].measures[found[seed][1].seeds.index(seed)] for seed in kept},
        cost,
        joined_origins(origins),
        cell.name,
        facts["source"],
        digest(facts),
        item.setting.plateau is not None,
        {} if item.setting.one_task is None else {seed: _best_error(found[seed][0], seed) for seed in kept},
        {seed: reason for seed, reason in cell.diverged(out).items() if seed in seeds},
        found[kept[0]][1].chance,
        _mean_ratio([found[seed][1].ratio for seed in kept]),
        {seed: share for seed in kept if (share := found[seed][1].undone.get(seed))},
        {seed: 100 * acc for seed in kept if (acc := _without_task(found[seed][1], seed)) is not None},
        [int(count) for count in places[0].drawn(ROW).get(POOL_IMAGES, [])],
        found[kept[0]][1].h_parameters,
        _task_numbers(item.setting, found, kept) if cell.name in drawn else {},
        _whole(facts.get(CLASSES)),
    )


def _task_numbers(
    setting: Setting, found: Mapping[int, tuple[RunDirectory, RowResult]], seeds: Sequence[int]
) -> dict[int, TaskNumbers]:
    return {
        seed: task_numbers(setting, place, seed, row.matrices[row.seeds.index(seed)])
        for seed, (place, row) in found.items()
        if seed in seeds
    }


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _without_task(row: RowResult, seed: int) -> float | None:
    """ACC of a seed where test images come without their task."""
    return None if row.unknown is None else row.unknown.measures[row.seeds.index(seed)].acc


def _all_seeds(own: Trained) -> set[int]:
    return {*own.measures, *own.diverged}


def _mean_ratio(each: Sequence[float | None]) -> float | None:
    known = [own for own in each if own is not None]
    return sum(known) / len(known) if known else None


def joined_origins(each: Iterable[str]) -> str:
    """Machines, versions, days and commits, each once."""
    return "; ".join(dict.fromkeys(part for origin in each for part in origin.split("; ")))


def _at_once(place: RunDirectory) -> int:
    """Seeds that trained together share the cost."""
    return len(place.spec.seeds)


def _best_error(place: RunDirectory, seed: int) -> float:
    return errors(place.metrics(ROW, seed), place.accuracy(ROW, seed))[BEST]


def _environment(place: RunDirectory) -> tuple[dict[str, float], str]:
    """What a row cost, and where it comes from."""
    file = place.path / ROW / "env.json"
    try:
        facts = parse_json(place.read(ROW, "env.json"))
        time, commit = facts["time"], facts.get("commit")
        day, version = time["started"], facts["versions"]["torch"]
        device = facts["device"]
        cost = {name: float(time[key]) for name, key in COSTS.items() if time.get(key) is not None}
        if "megabytes" in cost:
            images = place.spec.rows[0].setting.stream.batch * int(time["seeds_at_once"])
            cost[PER_IMAGE] = cost["megabytes"] / images
        others = [_origin(own["device"], own["torch"], own["started"], own["commit"]) for own in facts.get(REUSED, [])]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise GradcastError(f"{file} cannot be read ({message_of(error)}); delete {place.path} and run again") from None
    return cost, joined_origins([_origin(device, version, day, commit), *others])


def _origin(device: object, version: object, started: object, commit: object) -> str:
    return f"{device}, torch {version}, {str(started)[:10]}" + (f", commit {commit}" if commit else "")
