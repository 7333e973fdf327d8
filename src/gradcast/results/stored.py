"""What a run's files say of its steps: these need not be read again for it."""

from collections.abc import Sequence

import numpy as np

from gradcast.errors import GradcastError
from gradcast.runs.directory import RunDirectory
from gradcast.runs.jsontext import parse_json
from gradcast.runs.step_log import Line

RATIO = "pseudo_ratio_median"


def stored_ratio(directory: RunDirectory, row: str) -> float | None:
    """Length of what the signals add beside the labelled gradient; None where no file says so."""
    family = directory.family()
    if family is not None:  # a part of a table, whose rows were trained elsewhere
        return family.ratios.get(row)
    try:
        told = parse_json(directory.read(row, "env.json"))
        if isinstance(told, dict) and RATIO in told:
            return None if told[RATIO] is None else float(told[RATIO])
        rows = parse_json((directory.path / "result.json").read_text(encoding="utf-8"))  # of earlier runs
        return float(next(own["diagnostics"][RATIO]["mean"] for own in rows if own["name"] == row))
    except (GradcastError, OSError, ValueError, LookupError, TypeError, StopIteration):
        return None


def mean_ratio(logs: Sequence[Sequence[Line]]) -> float | None:
    """That length by the logs of all seeds: the mean of their medians; None where no step has one."""
    values = [[own for line in log if isinstance(own := line.get("pseudo_ratio"), float | int)] for log in logs]
    medians = [float(np.median(own)) for own in values if own]
    return float(np.mean(medians)) if medians else None
