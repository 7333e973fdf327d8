"""A trial: one choice of values for the tuned row, and what the store knows of its seeds."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gradcast.runs.cell_key import CellKey
from gradcast.runs.directory import RunDirectory
from gradcast.runs.sealed import Schema
from gradcast.runs.seed_store import SeedStore
from gradcast.sweeps.search import Told

# stopped: early, by the rule; diverged: some seed has no result; refused: the specification cannot be trained
State = Literal["waiting", "finished", "stopped", "diverged", "failed", "refused"]


class Trial(Schema):
    """What is known of a trial; ``accuracy`` is the mean over ``tasks`` tasks after the last of them, by seed."""

    number: int  # from 1
    values: dict[str, Any]
    state: State = "waiting"
    accuracy: dict[int, float] = {}  # noqa: RUF012 -- pydantic copies it
    tasks: int = 0
    note: str = ""  # why there is no result

    @property
    def mean(self) -> float | None:
        """Mean accuracy over seeds; None without any."""
        return sum(self.accuracy.values()) / len(self.accuracy) if self.accuracy else None

    @property
    def told(self) -> Told | None:
        """What a search learns from it."""
        if self.mean is None or self.state not in ("finished", "stopped"):
            return None
        return Told(self.mean, self.tasks if self.state == "stopped" else 0)


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The finished trial with the highest mean accuracy, the earlier one of equals."""
    finished = [own for own in trials if own.state == "finished"]
    return max(finished, key=lambda own: (own.mean or 0.0, -own.number), default=None)


def stored_curves(
    store: SeedStore, key: CellKey, seeds: Sequence[int]
) -> tuple[dict[int, list[float]], dict[int, str]]:
    """The mean accuracy over the tasks seen after each task, of every seed in the store; and why seeds diverged."""
    curves, diverged = dict[int, list[float]](), dict[int, str]()
    cells = RunDirectory(store.path)  # a cell of the store is laid out like a row of a run
    for seed in seeds:
        found = store.find(key, seed)
        if found is not None and found.diverged:
            diverged[seed] = found.diverged
        elif found is not None:
            matrix = cells.accuracy(key.name, seed)
            curves[seed] = [float(matrix[tasks, :tasks].mean()) for tasks in range(1, len(matrix))]
    return curves, diverged


def concluded(trial: Trial, curves: Mapping[int, Sequence[float]], diverged: Mapping[int, str]) -> Trial:
    """The trial with what its seeds say; a seed that diverged makes the others' mean too good."""
    accuracy = {seed: own[-1] for seed, own in curves.items()}
    tasks = max(map(len, curves.values()), default=0)
    note, state = next(iter(diverged.values()), ""), "diverged" if diverged else "finished"
    return trial.model_copy(update={"accuracy": accuracy, "tasks": tasks, "state": state, "note": note})
