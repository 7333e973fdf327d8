"""Early stopping: the median rule, and the observer of a trial that obeys it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics
from gradcast.training.loop import Extent, Position

ENOUGH = 3  # finished trials: the median of one is that trial, and would stop half of all that follow
Curve = Sequence[float]  # mean accuracy over the tasks seen, after 1, 2, ... tasks
Curves = Mapping[int, Curve]  # of a trial, by seed


class TrialStopped(Exception):
    """A trial is hopeless: not a mistake, so that nobody explains it to a person."""

    def __init__(self, tasks: int, accuracy: Mapping[int, float]) -> None:
        super().__init__(f"stopped after {tasks} tasks")
        self.tasks, self.accuracy = tasks, dict(accuracy)  # by seed


def hopeless(own: float, tasks: int, finished: Sequence[Curve]) -> bool:
    """The median rule: below the median of finished trials after as many tasks, once there are enough of them."""
    others = [curve[tasks - 1] for curve in finished]
    return len(others) >= ENOUGH and own < median(others)


@dataclass(frozen=True)
class MedianRule:
    """What a trial is compared with: finished trials, after so many tasks or more."""

    after: int
    finished: Sequence[Curves]

    def stops(self, so_far: Mapping[int, float], tasks: int) -> bool:
        """Whether a trial with these accuracies, by seed, stops; the others' same seeds are looked at."""
        if tasks < self.after:
            return False
        others = [
            [_mean([curves[seed][task] for seed in so_far]) for task in range(tasks)]
            for curves in self.finished
            if so_far.keys() <= curves.keys()
        ]
        return hopeless(_mean(list(so_far.values())), tasks, others)


@dataclass
class TrialWatch:
    """Hears of the steps and evaluations of one trial; ends it by an exception where the rule says so."""

    extent: Extent
    groups: int
    moved: Callable[[float], None]  # is told the share that is done
    rule: MedianRule | None = None
    before: int = 0
    done: int = 0
    seeds: Sequence[int] = ()  # of the group that trains

    def begin(self, group: int, position: Position, seeds: Sequence[int] = ()) -> None:
        """A group of these seeds begins, or goes on from there."""
        self.before, self.done = group * self.extent.steps + self.extent.before(position.task), position.batches
        self.seeds = seeds
        self._move()

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """Count one more step of the trial."""
        self.done += 1
        self._move()

    def trained(self, task: int) -> None:
        """A task may be over before its last epoch."""
        self.before += self.extent.batches[task]
        self.done = 0
        self._move()

    def evaluated(
        self, tasks_done: int, accuracy: Float[Tensor, "r tasks"], unknown: Float[Tensor, "r tasks"] | None = None
    ) -> None:
        """After a task, the mean over the tasks so far; the last task ends the trial anyway."""
        if not tasks_done:
            return
        so_far = dict(zip(self.seeds, accuracy[:, :tasks_done].mean(1).tolist(), strict=True))
        if self.rule is not None and tasks_done < accuracy.shape[1] and self.rule.stops(so_far, tasks_done):
            raise TrialStopped(tasks_done, so_far)

    def _move(self) -> None:
        self.moved(min((self.before + self.done) / max(self.groups * self.extent.steps, 1), 1.0))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
