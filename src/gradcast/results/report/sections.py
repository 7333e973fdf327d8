"""The sections of a run's report, in the order in which they are read."""

from collections.abc import Sequence

import numpy as np

from gradcast.results.figures.curves import Curve, stream_curves
from gradcast.results.figures.feature_maps import feature_panels, said
from gradcast.results.figures.matrices import accuracy_matrix, difference, difference_matrix
from gradcast.results.figures.paired import paired_differences
from gradcast.results.history import TESTS, UNLABELLED
from gradcast.results.quick import mark
from gradcast.results.report import evidence
from gradcast.results.report.blocks import Block, Fold, Gallery, Picture, Section
from gradcast.results.report.read import Run
from gradcast.results.report.words import DIVISOR, SELECTED, size_of_h, without_task
from gradcast.results.result import COURSES, RowResult

MEANING = (
    "ACC is the mean accuracy over all tasks at the end of the stream. BWT says what later tasks changed on earlier "
    "ones, FWT what earlier tasks gave to later ones. Learning accuracy is the accuracy on each task right after its "
    "training, forgetting what tasks have lost since their best time. " + DIVISOR
)
BANDS = "Lines are means over seeds, bands their 95 % confidence intervals"
FEATURES = "Test images of all tasks after the last one, on the first two principal components of their features"
PROBE = (
    "The probe is linear, fitted to half of these images and asked about the other half. Shared features should tell "
    "it little of the task beyond chance; private ones come from a module of each task and may tell it everything."
)
AHEAD = {"loss": "loss of the head start", "nearest_neighbour": "nearest neighbours of the same class"}
NEIGHBOURS = (
    "A head start sees unlabelled images alone. Nearest neighbours are a diagnosis: of how many labelled training "
    "images of the first task does the image with the most similar features show the same class?"
)
FRAME = "; what the first tenth of the tests showed may lie outside the frame"
TRUTH = "What unlabelled images really show is known to this report and to nothing that learns."
STREAM = {
    "accuracy": "accuracy over the tasks seen (%)",
    "accuracy_unknown_task": "accuracy over the tasks seen, task unknown (%)",
    "loss": "training loss",
}
WITHOUT_TASK = (
    "The same where the task of a test image is not known: the answer is one of all classes seen so far, and a class "
    "that has not come yet is never the answer."
)


def sections(run: Run) -> list[Section]:
    """Those for which the run has something to show."""
    meaning = SELECTED if run.few_labels else MEANING
    found = [
        Section("unfinished", "Not finished", [evidence.unfinished_table(run)] if run.unfinished else []),
        Section("results", "Results", [evidence.results_table(run), meaning] if run.results else []),
        Section("differences", "Paired differences", _differences(run)),
        Section("head-start", "Before the stream", _head_starts(run)),
        Section("tasks", "Tasks", list(filter(None, [evidence.tasks_table(run)]))),
        *(_over_steps(run) if run.few_labels else _over_tasks(run)),
        Section("cost", "Cost", [evidence.cost_table(run)] if any(row.time for row in run.rows) else []),
        Section("specification", "Specification and environment", _specification(run)),
    ]
    return [section.marked(mark(run.spec)) for section in found if section.blocks]


def _over_tasks(run: Run) -> list[Section]:
    return [
        Section("matrices", "Accuracy matrices", _matrices(run)),
        Section("stream", "Over the stream", _curves(run, STREAM)),
        Section("features", "Shared and private features", _features(run)),
        Section("signal", "What the signal did", [*_curves(run, COURSES), *_diagnostics(run)]),
    ]


def _over_steps(run: Run) -> list[Section]:
    drawn = _curves(run, UNLABELLED)
    return [
        Section("course", "Over the steps", _curves(run, TESTS)),
        Section("unlabelled", "What unlabelled images did", [*drawn, *([TRUTH] if drawn else []), *_diagnostics(run)]),
    ]


def _differences(run: Run) -> list[Block]:
    compared = [own for own in run.results if own.paired is not None]
    if run.base is None or not compared:
        return []
    figure = paired_differences(run.base, [(run.place(own), own) for own in compared])
    said = [f"{own.label}: {own.paired.verdict}" for own in compared if own.paired is not None]
    alt = f"Paired differences in {run.base.compared} to {run.base.label}, a dot for each seed. {'; '.join(said)}."
    caption = (
        "A dot is a seed, the diamond their Hodges-Lehmann difference, the bar its simultaneous interval. Few seeds "
        "have none; there they are the mean and its 95 % t interval."
    )
    picture = Picture("paired-differences", alt, figure)
    return [Gallery(caption, [picture], "single"), evidence.differences_table(run, compared)]


def _matrices(run: Run) -> list[Block]:
    if not run.results:
        return []
    caption = "Mean accuracy on each task after each task, one colour scale for all rows; on top, before training."
    shown: list[Block] = [Gallery(caption, _heat_maps(run.results)), *_difference_maps(run)]
    unknown = without_task(run.results)
    return [*shown, Gallery(WITHOUT_TASK, _heat_maps(unknown))] if unknown else shown


def _heat_maps(results: Sequence[RowResult]) -> list[Picture]:
    return [
        Picture(
            f"accuracy-matrix-{own.name}{'-unknown-task' if own.suffix else ''}",
            f"Heat map of the accuracy matrix of {own.label}, {own.compared} {100 * own.over_seeds('acc').mean:.1f} %.",
            accuracy_matrix(own),
        )
        for own in results
    ]


def _difference_maps(run: Run) -> list[Block]:
    base, compared = run.base, [own for own in run.results if own.paired is not None]
    if base is None or not compared:
        return []
    limit = max(float(np.abs(difference(own, base)).max()) for own in compared) or 1.0
    pictures = [
        Picture(
            f"difference-matrix-{own.name}",
            f"Heat map of the accuracy matrix of {own.label} minus that of {base.label}, "
            f"from {difference(own, base).min():.1f} to {difference(own, base).max():.1f} points.",
            difference_matrix(own, base, limit),
        )
        for own in compared
    ]
    return [Gallery(f"The same minus the matrix of {base.label}: blue is better, orange is worse.", pictures)]


def _curves(run: Run, titles: dict[str, str]) -> list[Block]:
    pictures = []
    for name, title in titles.items():
        curves = [Curve(r.label, r.place, r.curves[name], r.finished, r.tests) for r in run.rows if name in r.curves]
        if curves:
            when = "at every test" if run.few_labels else "after each task"
            alt = f"Curves of the {title} {when} for {', '.join(curve.label for curve in curves)}."
            pictures.append(Picture(f"curve-{name.replace('_', '-')}", alt, stream_curves(title, curves)))
    dashed = "; dashed rows still train." if run.unfinished else "."
    return [Gallery(BANDS + (FRAME if run.few_labels else "") + dashed, pictures, "wide")] if pictures else []


def _head_starts(run: Run) -> list[Block]:
    pictures = []
    for name, title in AHEAD.items():
        rows = [row for row in run.rows if name in row.head_start]
        curves = [
            Curve(r.label, r.place, r.head_start[name][1:], steps=r.head_start[name][0].astype(int)) for r in rows
        ]
        if curves:
            alt = f"Curves of the {title} during the head start for {', '.join(curve.label for curve in curves)}."
            pictures.append(Picture(f"head-start-{name.replace('_', '-')}", alt, stream_curves(title, curves)))
    return [Gallery(f"{BANDS}{FRAME}.", pictures, "wide"), NEIGHBOURS] if pictures else []


def _features(run: Run) -> list[Block]:
    seen = [(row, row.feature_map) for row in run.rows if row.feature_map is not None]
    if not seen:
        return []
    pictures = [
        Picture(
            f"features-{row.name}",
            f"Features of {row.label} on two principal components, a colour for each task. Shared ones: "
            f"{said(feature_map, feature_map.shared)}; private ones: {said(feature_map, feature_map.private)}.",
            feature_panels([(row.label, feature_map)]),
        )
        for row, feature_map in seen
    ]
    return [Gallery(f"{FEATURES} (seed {run.spec.seeds[0]}).", pictures, "wide"), evidence.features_table(run), PROBE]


def _diagnostics(run: Run) -> list[Block]:
    return [evidence.diagnostics_table(run), *size_of_h(run.results)] if run.results else []


def _specification(run: Run) -> list[Block]:
    environments = [Fold(f"{row.label}: env.json", row.environment) for row in run.rows if row.environment]
    return [Fold("spec.toml, all defaults spelled out", run.text), *environments]
