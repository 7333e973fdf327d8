"""What a sweep is asked for, beside the specification: checked, and written as a table of TOML."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from gradcast.errors import GradcastError
from gradcast.specs.spec import Row, Spec
from gradcast.specs.table import Natural, Positive, Table, TaskCount, nearest
from gradcast.specs.text import value_text

FIRST_TUNING_SEED = 100  # seeds below it are reported, never tuned on
Seeds = Annotated[list[Natural], Field(min_length=1)]


class SweepTable(Table):
    """One sweep; the keys of [[sweep]] in a suite, and of ``gradcast.sweep``."""

    over: list[str]  # KEY=VALUES
    row: str = ""  # which row is tuned; empty: the only one that is not the base
    search: Literal["grid", "random", "tpe"] = "grid"  # how trials are chosen
    trials: Positive | None = None  # of random and tpe
    search_seed: Natural = 0  # of random and tpe
    tune_seeds: Positive | Seeds = 3  # how many, from 100 on; or which
    tune_tasks: TaskCount | None = None  # tune on the first tasks alone
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.1  # share of training images that trials are tested on
    prune: bool = False  # stop hopeless trials early
    prune_after: Positive = 2  # tasks
    seeds: Positive | Seeds = 10  # of the final comparison: 0 to N-1, or which
    parallel: Positive | None = None  # trials that tpe proposes at once

    @property
    def tuning_seeds(self) -> list[int]:
        """Seeds of every trial."""
        own = self.tune_seeds
        return list(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + own)) if isinstance(own, int) else own

    @property
    def final_seeds(self) -> list[int]:
        """Seeds of the final comparison."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def as_toml(self) -> list[str]:
        """A line for every key that is not as it is by default."""
        fields = type(self).model_fields
        return [
            f"{key} = {value_text(getattr(self, key))}" for key in fields if getattr(self, key) != fields[key].default
        ]


def requested(given: dict[str, Any]) -> SweepTable:
    """The table of these keys; a sentence where one is wrong."""
    try:
        found = SweepTable.model_validate(given)
    except ValidationError as error:
        raise GradcastError(mistake(error, list(SweepTable.model_fields), "sweep")) from None
    low = [seed for seed in found.tuning_seeds if seed < FIRST_TUNING_SEED]
    if low:
        raise GradcastError(f"seed {low[0]} may be reported; tune with seeds from {FIRST_TUNING_SEED} on")
    for name, own in (("tune_seeds", found.tuning_seeds), ("seeds", found.final_seeds)):
        if len(set(own)) < len(own):
            raise GradcastError(f"{name} has a seed twice; each may appear once")
    both = sorted(set(found.tuning_seeds) & set(found.final_seeds))
    if both:
        raise GradcastError(
            f"seed {both[0]} is tuned on and reported; lower --seeds to {FIRST_TUNING_SEED} or less, or choose others"
        )
    return found


def mistake(error: ValidationError, known: list[str], table: str) -> str:
    """One sentence about the first wrong key of a table that is no table of a specification."""
    first = next((own for own in error.errors() if own["type"] == "extra_forbidden"), error.errors()[0])
    key = next((str(part) for part in first["loc"] if part in known), str(first["loc"][0]))
    if first["type"] == "extra_forbidden":
        return f"unknown key {table + '.' + key!r}{nearest(key, known, prefix=f'{table}.')}"
    if first["type"] == "missing":
        return f"{table}.{key} is missing; add it"
    return f"{table}.{key} = {first['input']!r} is not valid: {first['msg'][0].lower()}{first['msg'][1:]}"


def tuned_row(spec: Spec, asked: str) -> Row:
    """The row that is tuned: the one asked for, the only one that is not the base, or the only one."""
    names = [row.name for row in spec.rows]
    if asked:
        if asked not in names:
            raise GradcastError(f"there is no row {asked!r}{nearest(asked, names)}")
        return spec.rows[names.index(asked)]
    others = spec.rows[1:] or spec.rows
    if len(others) > 1:
        raise GradcastError(
            f"{spec.name} has several rows that could be tuned; add --row {' or --row '.join(names[1:])}"
        )
    return others[0]
