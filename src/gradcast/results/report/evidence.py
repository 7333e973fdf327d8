"""The tables of a run."""

from collections.abc import Sequence

from gradcast.results.report.read import Run
from gradcast.results.report.summary import standing
from gradcast.results.report.tables import Cell, Table, estimate, figure
from gradcast.results.report.words import diagnosed, measured
from gradcast.results.result import RowResult
from gradcast.results.statistics import MANY, Interval

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
    rows = [
        [
            _named(run, own),
            *(estimate(*each) for each in measured(own).values()),
            estimate(own.paired.difference if own.paired else None, digits=2),
        ]
        for own in run.results
    ]
    first = run.results[0]
    head = ["row", *measured(first), f"{first.compared} minus the first row's (points)"]
    return Table("results", "Mean over seeds ± half of the 95 % confidence interval", head, rows)


def differences_table(run: Run, compared: Sequence[RowResult]) -> Table:
    """The tests behind all verdicts: against the first row, then of signals against the row that lacks but them."""
    first = run.results[0].label
    pairs = [(own, first, own.paired) for own in compared if own.paired is not None]
    pairs += [(own, own.added.label, own.added.paired) for own in run.results if own.added is not None]
    rows = [
        [
            _named(run, own),
            Cell(against),
            estimate(paired.difference, digits=2),
            _between(paired.bootstrap),
            figure(paired.t_test, ".3f"),
            figure(paired.t_test_holm, ".3f"),
            figure(paired.wilcoxon, ".3f"),
            figure(paired.wilcoxon_holm, ".3f"),
            figure(paired.effect_size, ".2f"),
            Cell(needed) if isinstance(needed := paired.seeds_needed, str) else figure(needed, "d"),
        ]
        for own, against, paired in pairs
    ]
    head = ["row", "against", "points", "bootstrap", "p (paired t)", "corrected", "p (Wilcoxon)", "that corrected"]
    count = run.comparisons
    several = f"; verdicts go by the p-value corrected for {count} comparisons (Holm)" if count > 1 else ""
    few = "; bootstrap intervals are too narrow with so few seeds" if len(run.spec.seeds) < MANY else ""
    power = "so many seeds are needed to find such a difference four times in five"
    title = f"Differences in {compared[0].compared}, seed by seed{several}{few}; {power}"
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


def unfinished_table(run: Run) -> Table:
    """How far the others have come."""
    rows = [[Cell(row.label, place=row.place), Cell(standing(row))] for row in run.unfinished]
    return Table("unfinished", "Rows that are not trained to their end", ["row", "so far"], rows)


def _between(found: Interval) -> Cell:
    """A bootstrap interval; with few seeds it is too narrow."""
    return (
        Cell() if found.seeds < 2 else Cell(f"{found.low:.2f} to {found.high:.2f}", found.mean, found.low, found.high)
    )


def _named(run: Run, own: RowResult) -> Cell:
    return Cell(own.label, place=run.place(own))
