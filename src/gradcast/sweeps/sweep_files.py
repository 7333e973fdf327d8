"""The files of a sweep: what was asked for, every trial, the best specification.

given.toml   the specification
sweep.toml   what was asked for: gradcast suite sweep.toml repeats it
trials.csv   every trial with its values and accuracies
best.toml    the base and the best setting: gradcast run best.toml
sweep.json   all of it, for programs; also what a killed sweep goes on from
sweep.html   a page that needs no other file
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcast.results.report.tables import Cell, Table
from gradcast.results.report.words import verdicts
from gradcast.results.run_result import RunResult
from gradcast.runs.jsontext import parse_json, to_json
from gradcast.runs.safe_files import write_text
from gradcast.runs.sealed import validated
from gradcast.specs.spec import Row, Spec
from gradcast.specs.text import dump, value_text
from gradcast.sweeps.over import Over
from gradcast.sweeps.request import SweepTable
from gradcast.sweeps.search import said
from gradcast.sweeps.trials import Trial, best_of

GIVEN, ASKED, TRIALS, BEST, RECORD, PAGE = (
    "given.toml",
    "sweep.toml",
    "trials.csv",
    "best.toml",
    "sweep.json",
    "sweep.html",
)


@dataclass(frozen=True)
class SweepPlan:
    """What all files of a sweep tell of."""

    folder: Path
    spec: Spec
    row: Row
    asked: SweepTable
    over: Sequence[Over]

    @property
    def keys(self) -> list[str]:
        """The settings that are tuned."""
        return [own.key for own in self.over]

    def begin(self) -> None:
        """Write down what was asked for."""
        lines = ["# gradcast suite sweep.toml", f"name = {value_text(self.spec.name)}", "", "[[sweep]]"]
        write_text(self.folder / GIVEN, dump(self.spec))
        write_text(self.folder / ASKED, "\n".join([*lines, f'what = "{GIVEN}"', *self.asked.as_toml()]) + "\n")

    def keep(self, trials: Sequence[Trial], result: RunResult | None = None, caution: str = "") -> None:
        """Every trial so far, and the final comparison when there is one."""
        write_text(self.folder / TRIALS, trial_table(self, trials).csv())
        write_text(self.folder / RECORD, to_json(self.record(trials, result, caution)))

    def record(self, trials: Sequence[Trial], result: RunResult | None, caution: str = "") -> dict[str, object]:
        """The whole sweep as JSON has it: trials, the best, and the final comparison."""
        best = best_of(trials)
        final = None
        if result is not None:
            rows = [row.as_dict() for row in result.rows]
            said = verdicts(result.rows)
            final = {"directory": str(result.directory), "verdicts": said, "caution": caution or None, "rows": rows}
        return {
            "name": self.spec.name,
            "row": self.row.name,
            "base": self.spec.rows[0].name,
            "asked": self.asked.model_dump(),
            "tuning_seeds": self.asked.tuning_seeds,
            "trials": [{**own.model_dump(), "mean": own.mean} for own in trials],
            "best": None if best is None else best.number,
            "final": final,
        }


def stopped_earlier(folder: Path) -> dict[str, Trial]:
    """Trials that were stopped before the process was, by their values; nothing where the file cannot be read."""
    try:
        listed = parse_json((folder / RECORD).read_text(encoding="utf-8"))["trials"]
        own = [{key: value for key, value in each.items() if key in Trial.model_fields} for each in listed]
        found = [validated(each, Trial) for each in own if each["state"] == "stopped"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}
    return {said(trial.values): trial for trial in found}


def trial_table(plan: SweepPlan, trials: Sequence[Trial]) -> Table:
    """Every trial: values, accuracy of every tuning seed, mean, state."""
    seeds = plan.asked.tuning_seeds
    head = ["trial", *plan.keys, *(f"seed {seed}" for seed in seeds), "mean", "tasks", "state", "note"]
    rows = [
        [
            Cell(str(own.number), own.number),
            *(_value(own.values[key]) for key in plan.keys),
            *(_percent(own.accuracy.get(seed)) for seed in seeds),
            _percent(own.mean),
            Cell(str(own.tasks), own.tasks),
            Cell(own.state),
            Cell(own.note),
        ]
        for own in trials
    ]
    return Table("trials", "Accuracy in % on held-out training images, mean over the tasks seen", head, rows)


def _value(value: object) -> Cell:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = value if isinstance(value, str) else value_text(value)
    return Cell(text, float(value) if number and isinstance(value, int | float) else None)


def _percent(share: float | None) -> Cell:
    return Cell() if share is None else Cell(f"{100 * share:.2f}", 100 * share)
