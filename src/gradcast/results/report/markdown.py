"""The report of a run in Markdown: the verdict first, then the numbers behind it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradcast.results.advice import advice
from gradcast.results.feature_files import read_feature_map
from gradcast.results.figures import accuracy_matrices, signal_courses
from gradcast.results.figures.feature_maps import feature_panels, said
from gradcast.results.figures.style import save_png, stamp
from gradcast.results.quick import mark
from gradcast.results.report.words import (
    DIVISOR,
    SELECTED,
    diagnosed,
    headline,
    measured,
    measured_without_task,
    number,
    shifted,
    signed_points,
    size_of_h,
    verdicts,
    without_task,
)
from gradcast.results.result import UNKNOWN, RowResult
from gradcast.results.task_list import HEAD, task_list
from gradcast.runs.directory import RunDirectory
from gradcast.runs.safe_files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_report(directory: RunDirectory, results: Sequence[RowResult]) -> None:
    """report.md and its pictures."""
    spec, few = directory.spec, results[0].tests is not None
    pictures = _pictures(results)
    for name, _, figure in pictures:
        stamp(figure, mark(spec))
        save_png(figure, directory.path / name)
    features = _features(directory, results)
    advised = advice(spec, results, Path(directory.path.name))
    lines = [
        f"# {spec.name}",
        "",
        harmless(headline(spec)),
        "",
        "## Verdict",
        "",
        *[f"- {harmless(sentence)}" for sentence in (*verdicts(results), *filter(None, [advised]))],
        "",
        "## Results",
        "",
        *_table(*_results(results)),
        "",
        SELECTED if few else DIVISOR,
        "",
        *_tasks(directory, results),
        f"## Paired differences in {results[0].compared}",
        "",
        *_differences(results),
        "",
        f"## What {'unlabelled images' if few else 'the signal'} did",
        "",
        *_diagnostics(results),
        "",
        *(line for sentence in size_of_h(results) for line in (harmless(sentence), "")),
        *(line for name, words, _ in pictures for line in (f"![{words}]({name})", "")),
        *features,
    ]
    write_text(directory.path / "report.md", "\n".join(lines))


def _tasks(directory: RunDirectory, results: Sequence[RowResult]) -> list[str]:
    """Tasks that have names."""
    rows = task_list(directory.known_draws(results[0].name))
    return ["## Tasks", "", *_table(HEAD, rows), ""] if rows else []


def _features(directory: RunDirectory, results: Sequence[RowResult]) -> list[str]:
    """Words on features and their picture, where rows have two kinds of them."""
    found = [(own.label, read_feature_map(directory, own.name, own.seeds[0])) for own in results]
    seen = [(label, feature_map) for label, feature_map in found if feature_map is not None]
    if not seen:
        return []
    figure = feature_panels(seen)
    stamp(figure, mark(directory.spec))
    save_png(figure, directory.path / "features.png")
    rows = [[label, said(own, own.shared), said(own, own.private)] for label, own in seen]
    table = _table(["linear probe on test images", "shared features", "private features"], rows)
    picture = "![Features of the first seed on two principal components](features.png)"
    return ["## Shared and private features", "", *table, "", picture, ""]


def _pictures(results: Sequence[RowResult]) -> list[tuple[str, str, "Figure"]]:
    """Names of files, what they show in words, and figures; a single task has no matrix worth a look."""
    courses, few = signal_courses(results), results[0].tests is not None
    name, words = ("course.png", "test by test") if few else ("signal.png", "task by task")
    drawn = [] if courses is None else [(name, f"What happened, {words}", courses)]
    if few:
        return drawn
    matrices, unknown = "Mean accuracy on each task after each task", without_task(results)
    drawn.append(("accuracy-matrix.png", matrices, accuracy_matrices(results)))
    if unknown:
        drawn.append(("accuracy-matrix-unknown-task.png", f"{matrices}{UNKNOWN}", accuracy_matrices(unknown)))
    return drawn


def _results(results: Sequence[RowResult]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the table of measures."""
    without = measured_without_task(results)
    rows = [
        [
            result.label,
            *(number(*own) for own in measured(result).values()),
            *("not applicable" if own is None else number(*own) for own in unknown.values()),
        ]
        for result, unknown in zip(results, without, strict=True)
    ]
    return ["", *measured(results[0]), *without[0]], rows


def _differences(results: Sequence[RowResult]) -> list[str]:
    rows = []
    for result in (*results, *without_task(results)):
        if result.paired is not None:
            found = result.paired
            corrected = "" if found.wilcoxon_holm is None else f"{found.wilcoxon_holm:.3f}"
            name, tested = f"{result.label}{result.suffix}", f"{found.wilcoxon:.3f}"
            rows.append([name, signed_points(found), shifted(found.shift), tested, corrected])
    if not rows:
        return ["One row, nothing to compare."]
    head = ["", "mean ± t interval", "Hodges-Lehmann (simultaneous interval)", "p (signed rank)", "corrected (Holm)"]
    return [*_table(head, rows), "", "The rule behind the verdict is explained in docs/verdicts.md."]


def _diagnostics(results: Sequence[RowResult]) -> list[str]:
    found = diagnosed(results)
    rows = [[name, *("" if value is None else f"{value:.3g}" for value in found[name])] for name in found]
    return _table(["mean over seeds", *(result.label for result in results)], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [list(map(harmless, cells)) for cells in (head, *rows)]
    return [f"| {' | '.join(cells)} |" for cells in (lines[0], ["---"] * len(head), *lines[1:])]


def harmless(text: str) -> str:
    """Somebody's words as they are, on one line: no markup, no picture from elsewhere."""
    return re.sub(r"([\\`*\[\]<>&|])", r"\\\1", " ".join(text.split()))
