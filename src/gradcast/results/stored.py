"""What a run's files say of its steps: these need not be read again for it."""

from typing import Any

from gradcast.runs.directory import FAMILY, RunDirectory
from gradcast.runs.jsontext import parse_json

RATIO = "pseudo_ratio_median"


def stored_ratio(directory: RunDirectory, row: str) -> float | None:
    """Length of what the signals add beside the labelled gradient; None where no file says so."""
    try:
        if (directory.path / FAMILY).is_file():  # a part of a table, whose rows were trained elsewhere
            return float(_json(directory, FAMILY)["ratios"][row])
        rows = _json(directory, "result.json")
        return float(next(own["diagnostics"][RATIO]["mean"] for own in rows if own["name"] == row))
    except (OSError, ValueError, LookupError, TypeError, StopIteration):
        return None


def _json(directory: RunDirectory, name: str) -> Any:  # noqa: ANN401 -- whatever it holds
    return parse_json((directory.path / name).read_text(encoding="utf-8"))
