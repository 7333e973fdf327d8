"""The result of a run, as a pure function of its directory."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from gradcast.errors import GradcastError
from gradcast.learners.registry import LEARNERS
from gradcast.results.family import Judged, Match, judge_run, judge_unknown, twins
from gradcast.results.history import history, when_tested
from gradcast.results.measures import BOUNDS, Measures, measure
from gradcast.results.sample import Sample, chance, chance_without_task
from gradcast.results.sizes import H_PARAMETERS, h_parameters
from gradcast.results.statistics import Interval, interval
from gradcast.results.stored import RATIO, stored_ratio
from gradcast.results.verdict import Paired
from gradcast.runs.directory import RunDirectory
from gradcast.runs.step_log import Line
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
MEANS = ("label_movement", "signal_loss", "confident", "stable", "agreement", "memory_agreement")  # over all steps
UNKNOWN = ", task unknown"  # after the name of a measure without the task
EVERYWHERE = (-np.inf, np.inf)
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
    added: tuple[Added, ...] = ()  # against rows that lack its signal, or its head start, and nothing else
    tests: Int[np.ndarray, " points"] | None = None  # where labels are few, the steps that ended in a test
    diverged: Mapping[int, str] = field(default_factory=dict)  # seeds that have no result, and why
    chance: float | None = None  # ACC of a guess, in per cent
    ratio: float | None = None  # length of what the signals add beside the labelled gradient
    undone: Mapping[int, float] = field(default_factory=dict)  # share of its steps that a seed undid, where it did
    task: Literal["known", "unknown"] = "known"  # of test images
    unknown: "RowResult | None" = None  # the same accuracies without the task, where both were measured
    only_known: str = ""  # why they were not, where tasks have different classes and the learner needs the task
    h_parameters: int | None = None  # of the gradient learner, where the row has one

    @property
    def compared(self) -> str:
        """What differences to the first row are differences of."""
        return ("ACC" if self.tests is None else "accuracy") + self.suffix

    @property
    def suffix(self) -> str:
        """What follows the name of a measure."""
        return "" if self.task == "known" else UNKNOWN

    def over_seeds(self, name: str) -> Interval:
        """Mean and interval of one measure."""
        return interval([getattr(measures, name) for measures in self.measures], BOUNDS[name])

    def acc(self) -> list[float]:
        """ACC of every seed, in per cent."""
        return [100 * measures.acc for measures in self.measures]

    def sample(self) -> Sample:
        """The row as evidence of a verdict."""
        acc = dict(zip(self.seeds, self.acc(), strict=True))
        return Sample(self.label, acc, self.diverged, self.chance, self.ratio, self.undone)

    def as_dict(self) -> dict[str, object]:
        """For result.json and --json; a single task transfers nothing, so there it is accuracy alone."""
        return {
            "name": self.name,
            "label": self.label,
            **({"task": self.task} if self.task == "unknown" else {}),
            **self._measured(),
            "diverged": {str(seed): reason for seed, reason in self.diverged.items()},
            **({"undone": {str(seed): share for seed, share in self.undone.items()}} if self.undone else {}),
            **({} if self.h_parameters is None else {H_PARAMETERS: self.h_parameters}),
            "diagnostics": {name: vars(value) for name, value in self.diagnostics.items()},
            **self._compared(),
            **({} if self.unknown is None else {"unknown_task": self.unknown._measured() | self.unknown._compared()}),
        }

    def _measured(self) -> dict[str, object]:
        names = NAMES if self.tests is None else ["acc"]
        own = zip(self.seeds, self.measures, strict=True)
        return {
            "measures": {name: vars(self.over_seeds(name)) for name in names},
            "seeds": {str(seed): {name: getattr(m, name) for name in names} for seed, m in own},
        }

    def _compared(self) -> dict[str, object]:
        return {
            "against_first_row": self.paired.as_dict() if self.paired else None,
            "one_thing_added": [{"against": own.label, **own.paired.as_dict()} for own in self.added],
        }

    @property
    def comparisons(self) -> list[Paired]:
        """All comparisons of the row: with the base, and with rows that lack only its signal."""
        return [own for own in (self.paired, *(each.paired for each in self.added)) if own is not None]


def read(
    directory: RunDirectory, *, rows: Container[str] | None = None, steps: bool = True, lenient: bool = False
) -> list[RowResult]:
    """All finished rows (or those named), in the order of the specification, with verdicts about their differences.

    Without ``steps`` only the accuracies are read: no diagnostics and courses, and a hundredth of the time. ``lenient``
    does without steps that are damaged.
    """
    spec = directory.spec
    wanted = [row for row in spec.rows if directory.finished(row.name) and (rows is None or row.name in rows)]
    found = [_read(directory, spec, row, steps=steps, lenient=lenient) for row in wanted]
    elsewhere = directory.elsewhere()
    judged = judge_run(spec, {own.name: own.sample() for own in found}, elsewhere)
    without = {own.name: own.unknown.sample() for own in found if own.unknown is not None}
    judged_without = judge_unknown(spec, without, judged, elsewhere)
    return [
        replace(
            _with_verdicts(own, row, spec, judged),
            unknown=None if own.unknown is None else _with_verdicts(own.unknown, row, spec, judged_without),
        )
        for own, row in zip(found, wanted, strict=True)
    ]


def _read(directory: RunDirectory, spec: Spec, row: Row, *, steps: bool, lenient: bool) -> RowResult:
    """One row, before it is compared."""
    if not lenient:
        directory.check(row.name)
    tasks, diverged = row.setting.stream.task_count, directory.diverged(row.name)
    seeds = [seed for seed in spec.seeds if seed not in diverged]
    matrices, without = (directory.accuracies(row.name, seeds, tasks, unknown=own) for own in (False, True))
    assert matrices is not None
    lines = [logged(directory, row, seed, lenient=lenient)[0] for seed in seeds] if steps else []
    logs = [errors(own, matrix) | diagnose(own) for own, matrix in zip(lines, matrices, strict=steps)]
    names = list(dict.fromkeys(name for log in logs for name in log))  # a seed may have drawn no unlabelled batch
    diagnostics = {
        name: interval([log[name] for log in logs if name in log], BOUNDS.get(name, EVERYWHERE)) for name in names
    }
    short, ratio = row.setting.one_task, diagnostics.get(RATIO) if all(lines) else None  # a log may be damaged
    facts, unknown = directory.known_draws(row.name), row.setting.evaluation.task == "unknown"
    found = RowResult(
        name=row.name,
        label=row.label,
        seeds=seeds,
        matrices=matrices,
        measures=[measure(matrix) for matrix in matrices],
        diagnostics=diagnostics,
        courses=courses(row.setting, lines),
        paired=None,
        tests=None if short is None else when_tested(short),
        diverged=diverged,
        chance=chance_without_task(facts) if unknown else chance(facts),
        ratio=stored_ratio(directory, row.name) if ratio is None else ratio.mean,
        undone=_undone(directory, row.name, lenient=lenient),
        task="unknown" if unknown else "known",
        h_parameters=h_parameters(facts),
    )
    if without is None:
        return replace(found, only_known=_only_known(row.setting))
    measures, guess = [measure(matrix) for matrix in without], chance_without_task(facts)
    return replace(found, unknown=replace(found, matrices=without, measures=measures, chance=guess, task="unknown"))


def _only_known(setting: Setting) -> str:
    """Why there is no accuracy without the task, where tasks have different classes."""
    if setting.masked and "task-modules" in LEARNERS[setting.learner.name].traits:
        return "every task has weights of its own"
    return ""


def _with_verdicts(own: RowResult, row: Row, spec: Spec, judged: Judged) -> RowResult:
    labels, beside = {other.name: other.label for other in spec.rows}, twins(spec, row)
    added = [Added(labels[name], judged[Match(own.name, name)]) for name in beside if Match(own.name, name) in judged]
    return replace(own, paired=judged.get(Match(own.name, spec.rows[0].name)), added=tuple(added))


def _undone(directory: RunDirectory, row: str, *, lenient: bool) -> dict[int, float]:
    """Shares of undone steps; unknown where env.json is damaged, which whoever is lenient says elsewhere."""
    try:
        return directory.undone(row)
    except GradcastError:
        if not lenient:
            raise
        return {}


def logged(directory: RunDirectory, row: Row, seed: int, *, lenient: bool = False) -> tuple[list[Line], str]:
    """The steps of a finished row and seed; damaged ones may be none, with a sentence, where accuracies stand alone.

    With few labels they do not: the best error is one of the steps'.
    """
    try:
        return directory.metrics(row.name, seed, row.setting.stream.task_count), ""
    except GradcastError as error:
        if not lenient or row.setting.one_task is not None:
            raise
        return [], f"What training told of seed {seed} of {row.label!r} is missing, its accuracies are not: {error}"


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
        **{name: _mean(lines, name) for name in MEANS},
        RATIO: _median(lines, "pseudo_ratio"),
        "learner_movement": _last(lines, "movement"),
        "skipped_steps": float(sum(_values(lines, "skipped"))) if _values(lines, "skipped") else None,
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
    short, tasks, names = setting.one_task, setting.stream.task_count, list(names)
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
