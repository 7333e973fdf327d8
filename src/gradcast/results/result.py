"""The result of a run, as a pure function of its directory."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from gradcast.errors import GradcastError
from gradcast.results.history import history, when_tested
from gradcast.results.measures import Measures, measure
from gradcast.results.statistics import Interval, Paired, compare, correct, interval
from gradcast.runs.directory import RunDirectory
from gradcast.runs.step_log import Line
from gradcast.signals.registry import NoSignalSpec
from gradcast.specs.spec import Row, Setting, Spec

NAMES = list(Measures.__dataclass_fields__)
# Numbers of a step that are worth a curve over the stream, and what they are called there.
COURSES = {
    "cosine": "cosine to the true logit gradient",
    "label_accuracy": "accuracy of pseudo labels (%)",
    "agreement": "cosine to the labelled gradient",
    "memory_agreement": "share of memories not opposed",
    "pseudo_ratio": "length beside the labelled gradient",
    "signal_loss": "the signal's own loss",
}
IN_PER_CENT = ("label_accuracy",)  # shares in files, per cent in curves
Courses = dict[str, Float[np.ndarray, "seeds points"]]


@dataclass(frozen=True)
class Added:
    """What a signal adds where the first row lacks more than the signal: against the row that lacks nothing else."""

    label: str  # of that row
    paired: Paired


@dataclass(frozen=True)
class RowResult:
    """One row over its seeds."""

    name: str
    label: str
    seeds: list[int]
    matrices: Float[np.ndarray, "seeds rows tasks"]
    measures: list[Measures]  # one a seed
    diagnostics: dict[str, Interval]
    courses: Courses  # what a signal did, task by task; where labels are few, all that is told, test by test
    paired: Paired | None  # against the first row; None for the first row itself
    added: Added | None = None
    tests: Int[np.ndarray, " points"] | None = None  # where labels are few, the steps that ended in a test

    @property
    def compared(self) -> str:
        """What differences to the first row are differences of."""
        return "ACC" if self.tests is None else "accuracy"

    def over_seeds(self, name: str) -> Interval:
        """Mean and interval of one measure."""
        return interval([getattr(measures, name) for measures in self.measures])

    def acc(self) -> list[float]:
        """ACC of every seed, in per cent."""
        return [100 * measures.acc for measures in self.measures]

    def as_dict(self) -> dict[str, object]:
        """For result.json and --json; a single task transfers nothing, so there it is accuracy alone."""
        names = NAMES if self.tests is None else ["acc"]
        own = zip(self.seeds, self.measures, strict=True)
        return {
            "name": self.name,
            "label": self.label,
            "measures": {name: vars(self.over_seeds(name)) for name in names},
            "seeds": {str(seed): {name: getattr(m, name) for name in names} for seed, m in own},
            "diagnostics": {name: vars(value) for name, value in self.diagnostics.items()},
            "against_first_row": self.paired.as_dict() if self.paired else None,
            "signal_alone": None
            if self.added is None
            else {"against": self.added.label, **self.added.paired.as_dict()},
        }

    @property
    def comparisons(self) -> list[Paired]:
        """All of them."""
        added = None if self.added is None else self.added.paired
        return [own for own in (self.paired, added) if own is not None]

    def corrected(self, comparisons: Iterator[Paired]) -> "RowResult":
        """The same with the next comparisons in place of its own."""
        paired = None if self.paired is None else next(comparisons)
        added = None if self.added is None else replace(self.added, paired=next(comparisons))
        return replace(self, paired=paired, added=added)


def read(
    directory: RunDirectory, *, rows: Container[str] | None = None, steps: bool = True, lenient: bool = False
) -> list[RowResult]:
    """All finished rows (or those named), in the order of the specification; each is compared with the first.

    A verdict says what is left after Holm's correction for the number of comparisons. Without ``steps`` only the
    accuracies are read: no diagnostics and courses, and a hundredth of the time. ``lenient`` does without steps that
    are damaged.
    """
    spec = directory.spec
    results: list[RowResult] = []
    for row in spec.rows:
        if not directory.finished(row.name) or (rows is not None and row.name not in rows):
            continue
        tasks = row.setting.stream.tasks
        matrices = np.stack([directory.accuracy(row.name, seed, tasks) for seed in spec.seeds])
        measures = [measure(matrix) for matrix in matrices]
        lines = [logged(directory, row, seed, lenient=lenient)[0] for seed in spec.seeds] if steps else []
        logs = [errors(own, matrix) | diagnose(own) for own, matrix in zip(lines, matrices, strict=steps)]
        names = list(dict.fromkeys(name for log in logs for name in log))  # a seed may have drawn no unlabelled batch
        diagnostics = {name: interval([log[name] for log in logs if name in log]) for name in names}
        drawn, short = courses(row.setting, lines), row.setting.one_task
        tests = None if short is None else when_tested(short)
        acc = [100 * m.acc for m in measures]
        base = spec.rows[0]
        comparable = bool(results) and results[0].name == base.name and row.setting.stream == base.setting.stream
        paired = compare(acc, results[0].acc()) if comparable else None
        twin = _without_signal(spec, row, results)
        added = None if twin is None else Added(twin.label, compare(acc, twin.acc()))
        results.append(
            RowResult(row.name, row.label, spec.seeds, matrices, measures, diagnostics, drawn, paired, added, tests)
        )
    corrected = iter(correct([own for result in results for own in result.comparisons]))
    return [result.corrected(corrected) for result in results]


def logged(directory: RunDirectory, row: Row, seed: int, *, lenient: bool = False) -> tuple[list[Line], str]:
    """The steps of a finished row and seed; damaged ones may be none, with a sentence, where accuracies stand alone.

    With few labels they do not: the best error is one of the steps'.
    """
    try:
        return directory.metrics(row.name, seed, row.setting.stream.tasks), ""
    except GradcastError as error:
        if not lenient or row.setting.one_task is not None:
            raise
        return [], f"What training told of seed {seed} of {row.label!r} is missing, its accuracies are not: {error}"


def _without_signal(spec: Spec, row: Row, results: Sequence[RowResult]) -> RowResult | None:
    """The finished row that differs from this one by nothing but the signal, unless it is the first."""
    if not row.setting.signals:
        return None
    alone = row.setting.model_copy(update={"signal": [NoSignalSpec()]})
    names = [own.name for own in spec.rows[1:] if own.setting == alone]
    return next((result for result in results if result.name in names), None)


def diagnose(lines: Sequence[Line]) -> dict[str, float]:
    """What the signal did, over all steps of one replica."""
    found = {
        "training_loss": _mean(lines, "loss"),
        "projection_rate": _mean(lines, "projected"),
        "tau": _mean(lines, "tau"),
        "fitness_gain": _mean(lines, "gain"),
        "cosine": _mean(lines, "cosine"),
        "cosine_last_tenth": _mean(lines[-max(len(lines) // 10, 1) :], "cosine"),
        "label_accuracy": _mean(lines, "label_accuracy"),
        "pseudo_accuracy_last_tenth": _mean(lines[-max(len(lines) // 10, 1) :], "pseudo_accuracy"),
        "label_movement": _mean(lines, "label_movement"),
        "signal_loss": _mean(lines, "signal_loss"),
        "agreement": _mean(lines, "agreement"),
        "memory_agreement": _mean(lines, "memory_agreement"),
        "pseudo_ratio_median": _median(lines, "pseudo_ratio"),
        "learner_movement": _last(lines, "movement"),
        "skipped_steps": float(sum(_values(lines, "skipped"))) if any(_values(lines, "skipped")) else None,
        "unlabelled_images": float(sum(_values(lines, "unlabelled"))) if _values(lines, "unlabelled") else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def errors(lines: Sequence[Line], matrix: Float[np.ndarray, "rows tasks"]) -> dict[str, float]:
    """Errors in per cent where test images were looked at while training: at the end, and the lowest of all looks."""
    looks = _values(lines, "test_accuracy")
    if not looks:
        return {}
    last = float(matrix[-1].mean())
    return {"last_error": 100 * (1 - last), "best_error": 100 * (1 - max(*looks, last))}


def courses(setting: Setting, logs: Iterable[Sequence[Line]], names: Iterable[str] = COURSES) -> Courses:
    """Curves that have a number anywhere, a row a seed: ``names`` task by task, or all test by test of few labels."""
    short, tasks, names = setting.one_task, setting.stream.tasks, list(names)
    each = [
        {name: course(lines, name, tasks) * (100 if name in IN_PER_CENT else 1) for name in names}
        if short is None
        else history(lines, short)
        for lines in logs
    ]
    stacked = {name: np.stack([own[name] for own in each]) for name in (each[0] if each else ())}
    return {name: values for name, values in stacked.items() if not np.isnan(values).all()}


def course(lines: Sequence[Line], key: str, tasks: int) -> Float[np.ndarray, " tasks"]:
    """A number's mean in each task; not a number where it was never written."""
    by_task: list[list[float]] = [[] for _ in range(tasks)]
    for line in lines:
        value = line.get(key)
        if isinstance(value, float | int):
            by_task[int(line["task"])].append(float(value))
    return np.array([np.mean(values) if values else np.nan for values in by_task])


def _values(lines: Sequence[Line], key: str) -> list[float]:
    found = (line.get(key) for line in lines)
    return [float(value) for value in found if isinstance(value, float | int)]


def _mean(lines: Sequence[Line], key: str) -> float | None:
    values = _values(lines, key)
    return float(np.mean(values)) if values else None


def _median(lines: Sequence[Line], key: str) -> float | None:
    values = _values(lines, key)
    return float(np.median(values)) if values else None


def _last(lines: Sequence[Line], key: str) -> float | None:
    values = _values(lines, key)
    return values[-1] if values else None
