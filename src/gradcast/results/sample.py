"""One row as evidence: its ACC seed by seed, and what else a verdict must know of it."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from gradcast.errors import GradcastError
from gradcast.streams.stream import TASK_CLASSES

COLLAPSE = 4.0  # points below the row's median: such a seed is counted and named
LEARNED = 1.0  # points above chance: a row below that has learned nothing
UNDONE = 0.1  # share of a row's steps: one that undid more has not trained as it was asked to


@dataclass(frozen=True)
class Sample:
    """ACC in per cent by seed, and the seeds that have none because their training diverged, with the reason."""

    label: str
    acc: Mapping[int, float]
    diverged: Mapping[int, str] = field(default_factory=dict)
    chance: float | None = None  # ACC of a guess, in per cent; None where it is not known
    ratio: float | None = None  # median length of what the signals add beside the labelled gradient; None without any
    undone: Mapping[int, float] = field(default_factory=dict)  # share of its steps that a seed undid, where it did

    def __post_init__(self) -> None:
        for seed, value in self.acc.items():
            if not math.isfinite(value):
                raise GradcastError(f"the ACC of seed {seed} of {self.label} is {value}, which is no accuracy")

    @classmethod
    def of(cls, label: str, acc: Sequence[float]) -> "Sample":
        """Of seeds 0 to n - 1."""
        return cls(label, dict(enumerate(acc)))

    @property
    def seeds(self) -> list[int]:
        """Trained ones and those that diverged."""
        return list(dict.fromkeys([*self.acc, *self.diverged]))

    @property
    def collapsed(self) -> list[int]:
        """Seeds far below the others."""
        middle = median(self.acc.values()) if self.acc else 0.0
        return [seed for seed, value in sorted(self.acc.items()) if value < middle - COLLAPSE]

    @property
    def undone_share(self) -> float:
        """Of all steps of all seeds that have a result, those that were undone since they were not finite."""
        return sum(self.undone.get(seed, 0.0) for seed in self.acc) / len(self.acc) if self.acc else 0.0

    @property
    def trained_in_part(self) -> bool:
        """Whether so many steps were undone that the result says nothing about the setting."""
        return self.undone_share > UNDONE

    @property
    def at_chance(self) -> bool:
        """Whether the row knows no more than a guess; not known without chance."""
        if self.chance is None or not self.acc:
            return False
        return sum(self.acc.values()) / len(self.acc) < self.chance + LEARNED

    def only(self, seeds: Collection[int]) -> "Sample":
        """The same row with these seeds alone."""
        acc = {seed: value for seed, value in self.acc.items() if seed in seeds}
        diverged = {seed: why for seed, why in self.diverged.items() if seed in seeds}
        undone = {seed: share for seed, share in self.undone.items() if seed in seeds}
        return replace(self, acc=acc, diverged=diverged, undone=undone)

    def common_seeds(self, other: "Sample") -> list[int]:
        """Seeds that both were trained on, whatever came of it, in the other's order."""
        return [seed for seed in other.seeds if seed in self.seeds]


def chance_without_task(facts: Mapping[str, object]) -> float | None:
    """The same where the task is not known: one of all classes of the stream."""
    listed = facts.get(TASK_CLASSES, facts.get("class_order"))
    if isinstance(listed, str):  # every seed has its own, of so many classes in all
        each, tasks = facts.get("classes_per_task"), facts.get("labelled_images")
        count = each * len(tasks) if isinstance(each, int) and isinstance(tasks, list) else 0
    else:
        count = len({label for own in listed for label in own}) if isinstance(listed, list) else 0
    return 100 / count if count else None


def chance(facts: Mapping[str, object]) -> float | None:
    """ACC of a guess, in per cent, by what was drawn to make a stream; None where that does not say."""
    listed, classes = facts.get(TASK_CLASSES), facts.get("classes_per_task")
    counts = [len(own) for own in listed] if isinstance(listed, list) else [classes]
    known = [count for count in counts if isinstance(count, int) and count > 0]
    return sum(100 / count for count in known) / len(known) if known else None
