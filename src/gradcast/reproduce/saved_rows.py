"""Rows of a table saved before, as if they had been trained here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradcast.devices import Arithmetic
from gradcast.errors import GradcastError, message_of
from gradcast.reproduce.cells import Cell
from gradcast.reproduce.experiment import Experiment, Item
from gradcast.reproduce.task_numbers import TaskNumbers
from gradcast.reproduce.trained import BEST, CLASSES, TASKS, UNKNOWN, Trained
from gradcast.results.measures import Measures
from gradcast.results.sizes import POOL_IMAGES, h_parameters
from gradcast.runs.jsontext import parse_json


def rows_of(file: Path) -> dict[str, Mapping[str, Any]]:
    """The rows of a table saved before whose seeds it has."""
    try:
        content = parse_json(file.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not isinstance(content.get("rows"), list):
            raise ValueError("it holds no table")
        rows = {str(row["name"]): row for row in content["rows"]}
        return {name: row for name, row in rows.items() if row.get("trained")}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise unreadable(file, error) from None


def known(file: Path, experiment: Experiment, seeds: Sequence[int], dtype: Arithmetic) -> dict[str, Trained]:
    """Rows of a table saved before that were trained with the settings of this one, and the seeds asked for."""
    try:
        rows = {row["trained"]["cell"]: row for row in rows_of(file).values()}  # several rows may be of one cell
        cells = [(item, Cell(item.setting, dtype).name) for item in experiment.items if item.setting is not None]
        found = {item.name: _read(rows[cell], item, seeds) for item, cell in cells if cell in rows}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise unreadable(file, error) from None
    if not any(row.measures for row in found.values()):
        raise GradcastError(
            f"{file} has no seeds of {experiment.header.id} with these settings and dtype {dtype}; "
            "repeat the options it was made with, if it is of the same table (files of earlier versions have no seeds)"
        )
    return {name: row for name, row in found.items() if row.measures}


def unreadable(file: Path, error: Exception) -> GradcastError:
    """The file is not that of a saved table."""
    fault = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read ({message_of(error)})"
    return GradcastError(f"{file} {fault}; give the result.json of a table that gradcast reproduce saved")


def _read(row: Mapping[str, Any], item: Item, wanted: Sequence[int]) -> Trained:
    facts, names = row["trained"], Measures.__dataclass_fields__
    seeds = {int(seed): own for seed, own in facts["seeds"].items() if int(seed) in wanted}
    return Trained(
        {seed: Measures(**{name: float(own[name]) for name in names}) for seed, own in seeds.items()},
        {name: [float(value) for value in values] for name, values in facts["cost"].items()},
        str(row["origin"]),
        facts["cell"],
        facts["source"],
        facts["data"],
        item.setting is not None and item.setting.plateau is not None,
        {seed: float(own[BEST]) for seed, own in seeds.items() if BEST in own},
        {int(seed): str(why) for seed, why in facts.get("diverged", {}).items() if int(seed) in wanted},
        facts.get("chance"),
        facts.get("pseudo_ratio"),
        {int(seed): float(share) for seed, share in facts.get("undone", {}).items() if int(seed) in wanted},
        {seed: float(own[UNKNOWN]) for seed, own in seeds.items() if UNKNOWN in own},
        [int(count) for count in facts.get(POOL_IMAGES, [])],
        h_parameters(facts),
        {seed: TaskNumbers.from_dict(own[TASKS]) for seed, own in seeds.items() if TASKS in own},
        None if facts.get(CLASSES) is None else int(facts[CLASSES]),
    )
