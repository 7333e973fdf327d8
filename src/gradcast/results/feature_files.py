"""Feature maps in a run's directory, as text."""

import json
import math
from pathlib import Path

import numpy as np

from gradcast.errors import GradcastError, message_of
from gradcast.results.feature_map import FeatureMap, View
from gradcast.runs.directory import RunDirectory
from gradcast.runs.jsontext import parse_json
from gradcast.runs.safe_files import write_text

FILE = "features.json"  # in the folder of the first seed


def write_feature_map(folder: Path, found: FeatureMap) -> None:
    """As text, beside the other files of a seed."""
    views = {name: _written(view) for name, view in (("shared", found.shared), ("private", found.private))}
    write_text(folder / FILE, json.dumps({"tasks": found.tasks.tolist(), **views}) + "\n")


def read_feature_map(directory: RunDirectory, row: str, seed: int) -> FeatureMap | None:
    """What was written; None where a seed has none."""
    file = directory.seed(row, seed) / FILE
    if not file.is_file():
        return None
    try:
        found = parse_json(directory.read(row, f"seed-{seed}/{FILE}"))
        tasks = np.array(found["tasks"])
        if tasks.ndim != 1 or tasks.dtype.kind != "i" or tasks.min() != 0 or tasks.max() + 1 != len(set(tasks)):
            raise ValueError("no tasks")
        return FeatureMap(tasks, *(_read(found[name], len(tasks)) for name in ("shared", "private")))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise GradcastError(
            f"{file} cannot be read ({message_of(error)}); delete {file.parent.parent} and run again"
        ) from None


def _written(view: View) -> dict[str, object]:
    points = [[float(f"{number:.4g}") for number in point] for point in view.points]
    return {"points": points, "explained": view.explained, "probe": view.probe}


def _read(found: dict[str, object], count: int) -> View:
    points = np.array(found["points"], dtype=np.float64)
    shares = [found["explained"], found["probe"]]
    if points.shape != (count, 2) or not np.isfinite(points).all():
        raise ValueError(f"not {count} points")
    if not all(isinstance(share, float | int) and math.isfinite(share) for share in shares):
        raise ValueError("a share that is not a number")
    return View(points, *map(float, shares))  # type: ignore[arg-type]
