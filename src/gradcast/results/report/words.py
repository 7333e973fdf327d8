"""Results in words and numbers, the same in every report."""

import math
from collections.abc import Sequence

from gradcast.results.result import IN_PER_CENT, UNKNOWN, RowResult
from gradcast.results.sizes import of_h
from gradcast.results.statistics import Interval, Shift
from gradcast.results.verdict import Paired
from gradcast.results.wording import losses
from gradcast.specs.spec import Setting, Spec

# Name, heading and scale of every measure that is shown.
MEASURES = [
    ("acc", "ACC (%)", 100.0),
    ("bwt", "BWT", 1.0),
    ("fwt", "FWT", 1.0),
    ("learning_accuracy", "learning accuracy (%)", 100.0),
    ("forgetting", "forgetting", 1.0),
]
WITHOUT_TASK = ("acc", "bwt", "forgetting")  # those that mean something where only classes seen are answers
ERRORS = {"last_error": "last error (%)", "best_error": "best error (%)"}  # the same where labels are few
# What the signals did, in the words of the pictures.
DIAGNOSTICS = {
    "training_loss": "training loss",
    "projection_rate": "share of steps whose gradient was projected",
    "tau": "tau, the length of labelled logit gradients",
    "fitness_gain": "what a step along h's predictions takes from the loss",
    "cosine": "cosine to the true logit gradient",
    "cosine_last_tenth": "the same in the last tenth",
    "label_accuracy": "accuracy of pseudo labels",
    "pseudo_accuracy_last_tenth": "unlabelled images labelled rightly, in the last tenth",
    "label_movement": "how far meta-gradient moves labels",
    "signal_loss": "the signal's own loss",
    "confident": "share of unlabelled images above the threshold",
    "stable": "share of unlabelled images on which the first student is stable",
    "agreement": "cosine to the labelled gradient",
    "memory_agreement": "share of memories not opposed",
    "pseudo_ratio_median": "length beside the labelled gradient, median",
    "learner_movement": "how far h has moved at the end, of its own length",
    "skipped_steps": "steps undone, in all",
    "unlabelled_images": "unlabelled images, in all",
}
ACCURACIES = (*IN_PER_CENT, "pseudo_accuracy_last_tenth")  # shares in files, per cent in reports
DIVISOR = "BWT and FWT divide by T - 1, as defined; result.json also has them divided by T, as published."

SELECTED = (
    "The best error is the lowest of all tests while training, chosen on the test images as published figures are; "
    "the last one is not chosen, and it is the one that is compared."
)
UNEQUAL = "not compared, their streams differ"


def measured(result: RowResult) -> dict[str, tuple[Interval, float, int | None]]:
    """Every measure that is shown, by its heading, with its scale and digits."""
    if result.tests is not None:
        return {title: (result.diagnostics[name], 1.0, 2) for name, title in ERRORS.items()}
    return {f"{title}{result.suffix}": (result.over_seeds(name), scale, None) for name, title, scale in MEASURES}


def measured_without_task(results: Sequence[RowResult]) -> list[dict[str, tuple[Interval, float, int | None] | None]]:
    """Of every row the measures without the task, by their headings; nothing at all where no row has any."""
    if not any(result.unknown for result in results):
        return [{} for _ in results]
    shown = {f"{title}{UNKNOWN}": (name, scale) for name, title, scale in MEASURES if name in WITHOUT_TASK}
    return [
        {
            title: None if result.unknown is None else (result.unknown.over_seeds(name), scale, None)
            for title, (name, scale) in shown.items()
        }
        for result in results
    ]


def diagnosed(results: Sequence[RowResult]) -> dict[str, list[float | None]]:
    """What the signals did, by name: the mean of every row, None where it has no such number."""
    known = dict.fromkeys(name for own in results for name in own.diagnostics)
    found: dict[str, list[float | None]] = {}
    for name in (name for name in known if name not in ERRORS):  # those are results
        scale, unit = (100, " (%)") if name in ACCURACIES else (1, "")
        values = [own.diagnostics.get(name) for own in results]
        found[DIAGNOSTICS[name] + unit] = [None if own is None else scale * own.mean for own in values]
    return found


def size_of_h(results: Sequence[RowResult]) -> list[str]:
    """How large the gradient learner is, in a sentence, where rows have one."""
    told = of_h([(own.label, own.h_parameters) for own in results])
    return [f"{told}."] if told else []


def headline(spec: Spec) -> str:
    """What was run, in a sentence or two."""
    seeds = counted(len(spec.seeds), "paired seed")
    images = trained_on(spec.rows[0].setting)
    return f"{spec.title or spec.name}. {images}, {seeds}, mean ± 95 % confidence interval."


def trained_on(setting: Setting) -> str:
    """Which images, in a few words."""
    stream, short = setting.stream, setting.one_task
    labels = "all" if stream.labels == "all" else f"{stream.labels:,}"
    tested = ", tested on training images held out" if stream.validation else ""
    if short is not None:
        return f"{stream.source} with {labels} labels, {short.steps:,} steps{tested}"
    few = "" if stream.labels == "all" else f" with {labels} labels each"
    blurry = f" with blurry borders ({100 * stream.blurry:g} %)" if stream.blurry else ""
    first = "" if stream.first_tasks == "all" else f"the first {stream.first_tasks} of "
    if stream.scenario == "own":
        return f"{first}{stream.tasks} own tasks{blurry}{few}{tested}"
    return f"{first}{stream.tasks} {stream.scenario} tasks of {stream.source}{blurry}{few}{tested}"


def verdicts(results: Sequence[RowResult]) -> list[str]:
    """One sentence a comparison with the first row, and one for what a signal adds where that row lacks more.

    Then the same without the task, where that was measured, and who cannot do without it.
    """
    base, *others = results
    sentences = [f"{r.label} against {base.label}: {r.paired.verdict if r.paired else UNEQUAL}" for r in others]
    sentences += [f"{r.label} against {own.label}: {own.paired.verdict}" for r in others for own in r.added]
    alone = [f"{base.label}: {note}" for note in losses(base.sample(), "")]
    compared = [own for own in without_task(results) if own.paired is not None]
    unknown = [f"Task unknown: {r.label} against {base.label}: {r.paired.verdict}" for r in compared if r.paired]
    unknown += [
        f"Task unknown: {r.label} against {own.label}: {own.paired.verdict}" for r in compared for own in r.added
    ]
    return [*(sentences or [*alone, "one row, nothing to compare it with"]), *unknown, *_needing_the_task(results)]


def _needing_the_task(results: Sequence[RowResult]) -> list[str]:
    """A sentence for each reason why rows have no accuracy without the task."""
    rows: dict[str, list[str]] = {}
    for own in results:
        if own.only_known:
            rows.setdefault(own.only_known, []).append(own.label)
    return [f"Task unknown: not applicable to {', '.join(labels)}: {reason}" for reason, labels in rows.items()]


def without_task(results: Sequence[RowResult]) -> list[RowResult]:
    """The rows that have accuracies without the task, as such."""
    return [result.unknown for result in results if result.unknown is not None]


def number(value: Interval, scale: float = 1.0, digits: int | None = None, *, signed: bool = False) -> str:
    """Mean ± half of the interval, or both ends where it was cut at a bound; no interval with one seed."""
    places = digits if digits is not None else (2 if scale == 100 else 4)
    form = f"{'+' if signed else ''}.{places}f"
    mean, low, high = (f"{scale * own:{form}}" for own in (value.mean, value.low, value.high))
    if value.seeds < 2:
        return mean
    return f"{mean} ± {scale * value.half:.{places}f}" if value.symmetric else f"{mean} ({low} to {high})"


def signed_points(paired: Paired | None) -> str:
    """Mean difference in points ± half of its interval, with a sign; empty where nothing was compared."""
    return "" if paired is None else number(paired.difference, digits=2, signed=True)


def shifted(found: Shift) -> str:
    """A Hodges-Lehmann difference with its interval; very few seeds have none."""
    ends = f" ({found.low:+.2f} to {found.high:+.2f})" if math.isfinite(found.low) else ""
    return f"{found.value:+.2f}{ends}"


def counted(count: int, what: str) -> str:
    """A count with its noun: 1 row, 2 rows."""
    return f"{count} {what}{'' if count == 1 else 's'}"
