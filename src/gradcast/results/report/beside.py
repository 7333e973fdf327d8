"""Files beside a row's numbers, which stand without them: what they hold, or a sentence about what is wrong."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from gradcast.errors import GradcastError
from gradcast.head_start.store import CURVES
from gradcast.results.feature_files import read_feature_map
from gradcast.results.feature_map import FeatureMap
from gradcast.runs.directory import HEAD_START, RunDirectory, damaged
from gradcast.runs.jsontext import parse_json
from gradcast.specs.spec import Row, Spec

StepsAndSeeds = dict[str, Float[np.ndarray, "_ _"]]  # curves by name, each with its own steps on top


def follow_links(directory: RunDirectory, spec: Spec, row: Row) -> None:
    """Beside a table lie links to its cells; a copy of them alone leads nowhere."""
    for place in (directory.seed(row.name, seed) for seed in spec.seeds):
        if place.is_symlink() and not place.exists():
            raise GradcastError(
                f"{place} is a link to {place.readlink()}, where nothing is; copy the folder of cells along, "
                "or hand over the table's result.json (gradcast reproduce --known)"
            )


def stream(directory: RunDirectory, row: str) -> str:
    """What is wrong with the file that says which data the row saw."""
    try:
        directory.drawn(row)
    except GradcastError as error:
        return f"Which data a row saw is not known: {error}"
    return ""


def whole(directory: RunDirectory, row: str) -> str:
    """What is wrong with files that a report does not read, and with the specification."""
    try:
        directory.check(row)
    except GradcastError as error:
        return f"A row is not as it was finished: {error}"
    return ""


def feature_map(directory: RunDirectory, row: str, seed: int) -> tuple[FeatureMap | None, str]:
    """The feature map, and what is wrong with it."""
    try:
        return read_feature_map(directory, row, seed), ""
    except GradcastError as error:
        return None, f"A picture of features is missing: {error}"


def head_starts(directory: RunDirectory, row: str, seeds: Sequence[int]) -> tuple[StepsAndSeeds, str]:
    """Curves of the row's head starts, each with its steps on top, and what is wrong with them."""
    told = []
    for seed in seeds:
        try:
            told.append(_curves(parse_json(directory.read(row, f"seed-{seed}/{HEAD_START}"))))
        except GradcastError as error:
            return {}, f"Curves of a head start are missing: {error}"
        except (OSError, ValueError) as error:
            return {}, f"Curves of a head start are missing: {damaged(directory.seed(row, seed) / HEAD_START, error)}"
    points = {name: {tuple(own[name][:, 0]) for own in told} for name in CURVES}
    shared = [name for name in CURVES if len(points[name]) == 1 and len(told[0][name])]
    return {name: np.stack([told[0][name][:, 0], *(own[name][:, 1] for own in told)]) for name in shared}, ""


def _curves(told: object) -> dict[str, Float[np.ndarray, "_ 2"]]:
    """Steps and numbers, by name."""
    if not isinstance(told, dict):
        raise ValueError("it is not a table")
    found = {name: np.array(told.get(name, []), dtype=float).reshape(-1, 2) for name in CURVES}
    if not all(np.isfinite(curve).all() for curve in found.values()):
        raise ValueError("a number is not finite")
    return found


def environment(directory: RunDirectory, row: str) -> tuple[str, dict[str, object], str]:
    """The file as text, its times, and what is wrong with it; a row's numbers stand without it."""
    file = directory.path / row / "env.json"
    try:
        text = directory.read(row, "env.json")
        facts = parse_json(text)
        time = facts.get("time") if isinstance(facts, dict) else None
        if not isinstance(time, dict):
            raise ValueError("it has no times")
    except GradcastError as error:
        return "", {}, f"Cost and environment of a row are missing: {error}"
    except (OSError, ValueError) as error:
        return "", {}, f"Cost and environment of a row are missing: {damaged(file, error, file.parent)}"
    return text, time, ""
