"""From values to specifications: the tuned row on its tuning stream, and the best row beside the base."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from gradcast.errors import GradcastError
from gradcast.runs.cell_key import CellKey, cell_key
from gradcast.runs.prepared import PreparedRun
from gradcast.specs import text as specfile
from gradcast.specs.differences import NONE, differing
from gradcast.specs.fit import check
from gradcast.specs.spec import LONGEST_NAME, Row, Spec
from gradcast.sweeps.over import Over
from gradcast.sweeps.request import SweepTable
from gradcast.sweeps.search import Values

TUNED = "tuned"
HELD_OUT = ("validation", "first_tasks")  # keys of the stream that a sweep sets itself


def tuning_spec(spec: Spec, row: Row, asked: SweepTable) -> Spec:
    """The row alone, with tuning seeds, on training images alone."""
    stream = row.setting.stream
    for key in HELD_OUT:
        if getattr(stream, key) != type(stream).model_fields[key].default:
            raise GradcastError(
                f"stream.{key} is set in {spec.name}, and a sweep sets it for its trials; leave it out, use "
                f"--{'validation' if key == 'validation' else 'tune-tasks'}"
            )
    if asked.tune_tasks is not None and stream.tasks != "own" and asked.tune_tasks > stream.tasks:
        raise GradcastError(f"--tune-tasks {asked.tune_tasks} is more than the {stream.tasks} tasks of {spec.name}")
    change = {"validation": asked.validation, "first_tasks": asked.tune_tasks or "all"}
    alone = row.model_copy(update={"control": None})
    own = spec.model_copy(update={"rows": [alone], "seeds": asked.tuning_seeds})
    return specfile.override(own, {"stream": change})


def with_values(spec: Spec, row: str, values: Values) -> Spec:
    """The specification with these values in one row, as --set row.NAME.KEY=VALUE has them."""
    raw = tomllib.loads(specfile.dump(spec))
    given = (f"row.{row}.{key}={specfile.value_text(value)}" for key, value in values.items())
    return specfile.parse(reduce(specfile.assign, given, raw))


def best_spec(spec: Spec, row: Row, values: Values, seeds: Sequence[int]) -> Spec:
    """The base, and the row with the best values; where the row is the base, beside itself as it was."""
    base = spec.rows[0].model_copy(update={"control": None})
    own = f"{row.name}-{TUNED}" if row.name == base.name else row.name
    tuned = row.model_copy(update={"control": None, "name": own, "label": f"{row.label}, {TUNED}"})
    name = f"{spec.name[: LONGEST_NAME - len(TUNED) - 1]}-{TUNED}"
    both = spec.model_copy(update={"rows": [base, tuned], "seeds": list(seeds), "name": name})
    return with_values(both, tuned.name, values)


def caution(final: Spec, keys: Sequence[str]) -> str:
    """A sentence where the base has a tuned key at another value: its verdict is not about the row's method alone."""
    base, tuned = final.rows
    differ = differing([base.setting, tuned.setting])
    told = [
        f"{key} ({before}, tuned {after})" for key, (before, after) in differ.items() if key in keys and before != NONE
    ]
    if not told or tuned.name == f"{base.name}-{TUNED}":  # a row beside itself as it was shows what tuning does
        return ""
    return (
        f"{base.label} was not tuned: it has another {' and '.join(told)}. The difference is due to tuning too, and "
        f"says nothing of the method alone; tune the base likewise (--row {base.name}) before you compare methods."
    )


@dataclass
class Candidates:
    """Specifications of trials, checked against the data; ``ready`` is the tuned row as it is."""

    ready: Spec
    shared: PreparedRun

    @property
    def row(self) -> Row:
        """The row that is tuned."""
        return self.ready.rows[0]

    def present(self, over: Over) -> object:
        """What the row has at a key now; None where it has no such key."""
        table, _, key = over.key.partition(".")
        own = getattr(self.row.setting, table, None)
        return getattr(own[0] if isinstance(own, list) else own, key, None)

    def spec(self, values: Values) -> Spec:
        """Of a trial; a sentence where it cannot be trained."""
        found = with_values(self.ready, self.row.name, values)
        setting, before = found.rows[0].setting, self.row.setting
        for key in HELD_OUT:
            if getattr(setting.stream, key) != getattr(before.stream, key):
                raise GradcastError(f"stream.{key} says what trials are tested on and cannot be swept over")
        self.shared.content(setting)  # what is wrong with a pool or a network of one's own
        check(setting, self.shared.stream(setting), found.seeds)
        return found

    def key(self, spec: Spec) -> CellKey:
        """Where the store has its seeds."""
        setting = spec.rows[0].setting
        return cell_key(setting, spec.dtype, self.shared.content(setting))

    def refuse_useless(self, trials: Iterable[Values]) -> None:
        """A sentence where none of these can be trained: the first one's."""
        problems = list[str]()
        for values in trials:
            problems.append(self.problem(values))
            if not problems[-1]:
                return
        raise GradcastError(problems[0])

    def problem(self, values: Values) -> str:
        """Why a trial cannot be trained; empty where it can."""
        try:
            self.spec(values)
        except GradcastError as error:
            return str(error)
        return ""
