"""A run's directory: text and safetensors only.

spec.toml                                                     what was asked for, all defaults spelled out
ROW/stream.json                                               what was drawn to make the tasks
ROW/seed-N/metrics.jsonl  accuracy.csv  weights.safetensors   one replica
ROW/env.json                                                  versions, device, commit, times; marks the row as finished
result.json  report.md  accuracy-matrix.png                   made from the above
"""

import csv
import hashlib
import json
import math
import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor

from gradcast.core import Metrics
from gradcast.errors import GradcastError
from gradcast.spec import Spec
from gradcast.specfile import dump, parse

Line = dict[str, float | int | str]  # a logged step; infinities are words


class RunDirectory:
    """The files of one run; its name carries a hash of the specification, so that two never mix."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, out: Path, spec: Spec) -> "RunDirectory":
        """The directory of this specification below ``out``, made if it is not there."""
        text = dump(spec)
        path = out / f"{spec.name}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"
        path.mkdir(parents=True, exist_ok=True)
        write_text(path / "spec.toml", text)
        return cls(path)

    @property
    def spec(self) -> Spec:
        """The specification it was made from."""
        return parse(tomllib.loads((self.path / "spec.toml").read_text()))

    def seed(self, row: str, seed: int) -> Path:
        """The directory of one replica."""
        return self.path / row / f"seed-{seed}"

    def finished(self, row: str) -> bool:
        """Whether the row is complete."""
        return (self.path / row / "env.json").is_file()

    def start(self, row: str, seeds: Sequence[int]) -> None:
        """Empty directories for a row; what an interrupted attempt left is removed."""
        shutil.rmtree(self.path / row, ignore_errors=True)
        for seed in seeds:
            self.seed(row, seed).mkdir(parents=True)

    def finish(self, row: str, facts: Mapping[str, object]) -> None:
        """Mark the row as complete and say where that happened."""
        write_text(self.path / row / "env.json", to_json(facts))

    def weights(self, row: str, seed: int, tensors: Mapping[str, Tensor]) -> None:
        """Final weights of one replica under the network's own names."""
        save_file(
            {name: tensor.contiguous() for name, tensor in tensors.items()},
            self.seed(row, seed) / "weights.safetensors",
        )

    def stream(self, row: str, facts: Mapping[str, np.ndarray]) -> None:
        """What was drawn to make the stream: angles, permutations, class order."""
        listed = {name: value.tolist() for name, value in facts.items()}
        write_text(self.path / row / "stream.json", json.dumps(listed) + "\n")

    def accuracy(self, row: str, seed: int) -> Float[np.ndarray, "rows tasks"]:
        """The accuracy matrix of one replica, row 0 before training."""
        file = self.seed(row, seed) / "accuracy.csv"
        try:
            table = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2)
        except (OSError, ValueError) as error:
            raise GradcastError(f"{file} cannot be read ({error}); delete {file.parent.parent} and run again") from None
        return table[:, 1:]

    def metrics(self, row: str, seed: int) -> list[Line]:
        """The logged steps of one replica."""
        file = self.seed(row, seed) / "metrics.jsonl"
        try:
            return [json.loads(line) for line in file.read_text().splitlines()]
        except (OSError, ValueError) as error:
            raise GradcastError(f"{file} cannot be read ({error}); delete {file.parent.parent} and run again") from None


class Recorder:
    """Writes the metrics and accuracies of one row while it trains; numbers leave the device once a task."""

    def __init__(self, directory: RunDirectory, row: str, seeds: Sequence[int]) -> None:
        self.places = [directory.seed(row, seed) for seed in seeds]
        self.pending: list[tuple[int, int, Metrics]] = []

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """Keep the step's numbers until the next write."""
        self.pending.append((step, task, metrics))

    def evaluated(self, tasks_done: int, accuracy: Float[Tensor, "r tasks"]) -> None:
        """Write what is pending and a row of each replica's accuracy matrix."""
        self.flush()
        for place, values in zip(self.places, accuracy.tolist(), strict=True):
            with open(place / "accuracy.csv", "a", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                if tasks_done == 0:
                    writer.writerow(["tasks_done", *(f"task_{task}" for task in range(len(values)))])
                writer.writerow([tasks_done, *values])

    def flush(self) -> None:
        """Write every pending step; called at the end as well, so that a run that stops loses nothing."""
        if not self.pending:
            return
        keys = sorted({key for _, _, metrics in self.pending for key in metrics})
        absent = torch.full_like(self.pending[0][2]["loss"], math.nan, dtype=torch.float64)
        columns = [torch.stack([metrics.get(key, absent).double() for _, _, metrics in self.pending]) for key in keys]
        values = torch.stack(columns, dim=-1).cpu()  # [steps, replicas, keys]
        for replica, place in enumerate(self.places):
            with open(place / "metrics.jsonl", "a") as file:
                for (step, task, _), numbers in zip(self.pending, values[:, replica].tolist(), strict=True):
                    file.write(json.dumps({"step": step, "task": task} | _known(keys, numbers)) + "\n")
        self.pending = []


def _known(keys: Sequence[str], numbers: Sequence[float]) -> dict[str, float | str]:
    """Nine digits of what is known; JSON has no infinity, so that becomes a word."""
    pairs = [(key, number) for key, number in zip(keys, numbers, strict=True) if not math.isnan(number)]
    return {key: float(f"{number:.9g}") if math.isfinite(number) else str(number) for key, number in pairs}


def to_json(value: object) -> str:
    """Readable JSON with a fixed order of keys; infinities become null."""
    return json.dumps(_finite(value), indent=2, ensure_ascii=False) + "\n"


def _finite(value: object) -> object:
    match value:
        case dict():
            return {key: _finite(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_finite(entry) for entry in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def write_text(path: Path, text: str) -> None:
    """Replace a file as a whole: nobody ever sees half of it."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
