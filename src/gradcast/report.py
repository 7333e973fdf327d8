"""The report of a run in Markdown: the verdict first, then the numbers behind it."""

from collections.abc import Sequence

from gradcast.advice import advice
from gradcast.figures import accuracy_matrices, signal_courses
from gradcast.result import RowResult
from gradcast.statistics import Interval
from gradcast.store import RunDirectory, write_text

MEASURES = [
    ("acc", "ACC (%)", 100.0),
    ("bwt", "BWT", 1.0),
    ("fwt", "FWT", 1.0),
    ("learning_accuracy", "learning accuracy (%)", 100.0),
    ("forgetting", "forgetting", 1.0),
]


def write_report(directory: RunDirectory, results: Sequence[RowResult]) -> None:
    """report.md and its pictures."""
    accuracy_matrices(results, directory.path / "accuracy-matrix.png")
    drawn = signal_courses(results, directory.path / "signal.png")
    spec = directory.spec
    advised = advice(spec, results)
    stream = spec.rows[0].setting.stream
    lines = [
        f"# {spec.name}",
        "",
        f"{spec.title or spec.name}. {stream.tasks} {stream.scenario} tasks of {stream.source}, "
        f"{len(spec.seeds)} paired seeds, mean ± 95 % confidence interval.",
        "",
        "## Verdict",
        "",
        *[f"- {sentence}" for sentence in verdicts(results)],
        *([] if advised is None else [f"- {advised}"]),
        "",
        "## Results",
        "",
        *_table(["", *(title for _, title, _ in MEASURES)], [[r.label, *_cells(r)] for r in results]),
        "",
        "BWT and FWT divide by T - 1, as defined; `result.json` also has them divided by T, as published.",
        "",
        "## Paired differences in ACC",
        "",
        *_differences(results),
        "",
        "## What the signal did",
        "",
        *_diagnostics(results),
        "",
        *(["![What the signal did, task by task](signal.png)", ""] if drawn else []),
        "## Accuracy matrices",
        "",
        "![Mean accuracy on each task after each task](accuracy-matrix.png)",
        "",
    ]
    write_text(directory.path / "report.md", "\n".join(lines))


def verdicts(results: Sequence[RowResult]) -> list[str]:
    """One sentence a comparison with the first row."""
    base, *others = results
    unequal = "not compared, their streams differ"
    sentences = [f"{r.label} against {base.label}: {r.paired.verdict if r.paired else unequal}" for r in others]
    return sentences or ["one row, nothing to compare it with"]


def number(value: Interval, scale: float = 1.0, digits: int | None = None) -> str:
    """Mean ± half of the interval; no interval with one seed."""
    places = digits if digits is not None else (2 if scale == 100 else 4)
    mean = f"{scale * value.mean:.{places}f}"
    return mean if value.seeds < 2 else f"{mean} ± {scale * value.half:.{places}f}"


def _cells(result: RowResult) -> list[str]:
    return [number(result.over_seeds(name), scale) for name, _, scale in MEASURES]


def _differences(results: Sequence[RowResult]) -> list[str]:
    rows = []
    for result in results:
        if result.paired is not None:
            found = result.paired
            rows.append(
                [result.label, number(found.difference, digits=2), f"{found.t_test:.3f}", f"{found.wilcoxon:.3f}"]
            )
    return _table(["", "points", "p (paired t)", "p (Wilcoxon)"], rows) if rows else ["One row, nothing to compare."]


def _diagnostics(results: Sequence[RowResult]) -> list[str]:
    names = list(dict.fromkeys(name for result in results for name in result.diagnostics))
    rows = [
        [name.replace("_", " "), *(_scientific(result.diagnostics.get(name)) for result in results)] for name in names
    ]
    return _table(["mean over seeds", *(result.label for result in results)], rows)


def _scientific(value: Interval | None) -> str:
    return "" if value is None else f"{value.mean:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    escaped = [[cell.replace("|", "\\|") for cell in cells] for cells in (head, ["---"] * len(head), *rows)]
    return [f"| {' | '.join(cells)} |" for cells in escaped]
