"""The tables of a run."""

import math
from collections.abc import Sequence
from dataclasses import replace

from gradcast.results.report.read import Run
from gradcast.results.report.summary import standing
from gradcast.results.report.tables import Cell, Table, estimate, figure
from gradcast.results.report.words import counted, diagnosed, measured, measured_without_task, shifted, without_task
from gradcast.results.result import RowResult
from gradcast.results.statistics import Shift
from gradcast.results.task_list import HEAD, task_list
from gradcast.runs.directory import RunDirectory

SMALLEST_P = 0.0005  # the smallest that three decimals show
# Key in env.json, heading, format.
COSTS = [
    ("seconds", "seconds", ".1f"),
    ("training_seconds", "of them training", ".1f"),
    ("ms_per_labelled_image", "ms a labelled image", ".3f"),
    ("ms_more_each_task", "more each task", ".4f"),
    ("peak_gpu_memory_mb", "peak GPU memory (MB)", ",.0f"),
    ("seeds_at_once", "seeds at once", ".0f"),
]


def results_table(run: Run) -> Table:
    """Every measure of every finished row, with the difference to the first."""
    without = measured_without_task(run.results)
    rows = [
        [
            _named(run, own),
            *(estimate(*each) for each in measured(own).values()),
            estimate(own.paired.difference if own.paired else None, digits=2, signed=True),
            *(Cell("not applicable") if each is None else estimate(*each) for each in unknown.values()),
        ]
        for own, unknown in zip(run.results, without, strict=True)
    ]
    first = run.results[0]
    head = ["row", *measured(first), f"{first.compared} minus the first row's (points)", *without[0]]
    return Table("results", "Mean over seeds ± half of the 95 % confidence interval", head, rows)


def differences_table(run: Run, compared: Sequence[RowResult]) -> Table:
    """The tests behind all verdicts: against the first row, then of signals against the row that lacks but them."""
    first = run.results[0].label
    pairs = [(own, first, own.paired) for own in compared if own.paired is not None]
    pairs += [(own, added.label, added.paired) for own in run.results for added in own.added]
    unknown = without_task(run.results)
    pairs += [(own, first, own.paired) for own in unknown if own.paired is not None]
    pairs += [(own, added.label, added.paired) for own in unknown for added in own.added]
    rows = [
        [
            Cell(f"{own.label}{own.suffix}", place=run.place(own)),
            Cell(against),
            estimate(paired.difference, digits=2, signed=True),
            _between(paired.shift),
            *(_chance(p) for p in (paired.t_test, paired.wilcoxon, paired.wilcoxon_holm)),
            figure(paired.effect_size, ".2f"),
            Cell(needed) if isinstance(needed := paired.seeds_needed, str) else figure(needed, "d"),
        ]
        for own, against, paired in pairs
    ]
    head = ["row", "against", "mean", "Hodges-Lehmann", "p (paired t)", "p (signed rank)", "corrected"]
    without = max((each.family for own in unknown for each in own.comparisons), default=0)
    more = f", without the task for {without}" if without else ""
    family = f"verdicts go by the signed-rank test corrected for {counted(run.family, 'claim')}{more} (Holm)"
    guess = f"seeds needed are a guess from {counted(len(run.spec.seeds), 'seed')}, at the corrected level"
    title = f"Differences in {compared[0].compared}, seed by seed; {family}; {guess}"
    return Table("differences", title, [*head, "effect size", "seeds needed"], rows)


def diagnostics_table(run: Run) -> Table:
    """What the signals did, averaged over all steps whose numbers are kept where it does not say otherwise."""
    rows = [
        [Cell(name), *(figure(value, ".3g") for value in values)] for name, values in diagnosed(run.results).items()
    ]
    title = f"Means over {'tests' if run.few_labels else 'steps'} and seeds where nothing else is said"
    return Table("diagnostics", title, ["number", *(own.label for own in run.results)], rows)


def features_table(run: Run) -> Table:
    """How well a linear probe tells the tasks by their features."""
    rows = [
        [
            Cell(row.label, place=row.place),
            *(figure(100 * share, ".1f") for share in (own.shared.probe, own.private.probe, own.chance)),
        ]
        for row in run.rows
        if (own := row.feature_map) is not None
    ]
    head = ["row", "by shared features", "by private features", "by chance"]
    return Table("features", "Images whose task a linear probe tells (%)", head, rows)


def cost_table(run: Run) -> Table:
    """What every finished row took."""
    rows = [
        [Cell(row.label, place=row.place), *(figure(row.time.get(key), form) for key, _, form in COSTS)]
        for row in run.rows
        if row.finished
    ]
    used = [column for column in range(1 + len(COSTS)) if column == 0 or any(row[column].text for row in rows)]
    head = ["row", *(title for _, title, _ in COSTS)]
    return Table(
        "cost",
        "All seeds of a row together",
        [head[column] for column in used],
        [[row[column] for column in used] for row in rows],
    )


def tasks_table(run: Run) -> Table | None:
    """Tasks that have names, as the first row's stream has them."""
    rows = task_list(RunDirectory(run.path).known_draws(run.spec.rows[0].name))
    cells = [[Cell(text) for text in row] for row in rows]
    return Table("tasks", "Tasks in the order in which they were learned", HEAD, cells) if rows else None


def unfinished_table(run: Run) -> Table:
    """How far the others have come."""
    rows = [[Cell(row.label, place=row.place), Cell(standing(row))] for row in run.unfinished]
    return Table("unfinished", "Rows that are not trained to their end", ["row", "so far"], rows)


def _chance(p: float | None) -> Cell:
    """A p-value; a small one is never shown as zero."""
    shown = figure(p, ".3f")
    return replace(shown, text="< 0.001") if p is not None and p < SMALLEST_P else shown


def _between(found: Shift) -> Cell:
    """The difference and its simultaneous interval; very few seeds have none."""
    ends = (found.low, found.high) if math.isfinite(found.low) else (None, None)
    return Cell(shifted(found), found.value, *ends)


def _named(run: Run, own: RowResult) -> Cell:
    return Cell(own.label, place=run.place(own))
