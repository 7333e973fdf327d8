"""What a run writes while it trains: the numbers of every step and the accuracies after every task."""

import csv
import io
import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics
from gradcast.errors import GradcastError
from gradcast.runs.directory import RunDirectory
from gradcast.runs.trackers import Tracker


class Growing:
    """A file that only grows; what the disk does not take waits for the next time."""

    def __init__(self, path: Path) -> None:
        self.path, self.waiting = path, b""

    def append(self, text: str) -> None:
        """To be written."""
        self.waiting += text.encode()

    def push(self) -> None:
        """Write what waits, all of it or, with an OSError, nothing."""
        if not self.waiting:
            return
        before = self.path.stat().st_size if self.path.is_file() else 0
        try:
            with open(self.path, "ab") as file:
                file.write(self.waiting)
        except OSError as error:
            with suppress(OSError):  # half a line would be taken for damage
                os.truncate(self.path, before)
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        self.waiting = b""


class Recorder:
    """Writes the metrics and accuracies of one row while it trains; numbers leave the device once a task.

    Of long tasks only ``every`` so many steps' numbers are kept, and written at once.

    A full disk does not end the run: numbers wait in memory until there is room, or until ``close``.
    """

    checkpointed: ClassVar[tuple[str, ...]] = ("written",)

    def __init__(
        self,
        directory: RunDirectory,
        row: str,
        seeds: Sequence[int],
        trackers: Sequence[Tracker] = (),
        *,
        every: int = 1,
    ) -> None:
        self.row, self.seeds, self.trackers, self.every = row, seeds, trackers, every
        self.places = [directory.seed(row, seed) for seed in seeds]
        self.metrics = [Growing(place / "metrics.jsonl") for place in self.places]
        self.accuracies = [Growing(place / "accuracy.csv") for place in self.places]
        self.pending: list[tuple[int, int, Metrics]] = []

    @property
    def files(self) -> list[Path]:
        """What it writes, as far as it is there."""
        return [each.path for each in (*self.metrics, *self.accuracies) if each.path.is_file()]

    @property
    def written(self) -> dict[str, int]:
        """The length of every file, with all that is known so far; an OSError where the disk does not take that."""
        self._collect()
        self._push()
        return {f"{file.parent.name}/{file.name}": file.stat().st_size for file in self.files}

    @written.setter
    def written(self, lengths: dict[str, int]) -> None:
        """Cut the files back to where they were."""
        row = self.places[0].parent
        for file in {*self.files, *(row / name for name in lengths)}:
            length = lengths.get(f"{file.parent.name}/{file.name}", 0)
            if not file.is_file() or file.stat().st_size < length:
                raise GradcastError(f"{file} is shorter than its checkpoint says; start over with --fresh")
            os.truncate(file, length)

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """Keep the step's numbers until the next write, or write them where few steps' are kept."""
        if (step + 1) % self.every:
            return
        self.pending.append((step, task, metrics))
        if self.every > 1:
            self.flush()

    def trained(self, task: int) -> None:
        """Nothing to write."""

    def evaluated(self, tasks_done: int, accuracy: Float[Tensor, "r tasks"]) -> None:
        """Write what is pending and a row of each replica's accuracy matrix."""
        for growing, values in zip(self.accuracies, accuracy.tolist(), strict=True):
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            if tasks_done == 0:
                writer.writerow(["tasks_done", *(f"task_{task}" for task in range(len(values)))])
            writer.writerow([tasks_done, *values])
            growing.append(text.getvalue())
        self.flush()
        for seed, values in zip(self.seeds, accuracy.tolist(), strict=True):
            named = {f"accuracy/task_{task}": value for task, value in enumerate(values)}
            self._track(seed, tasks_done, named | {"accuracy/mean": sum(values) / len(values)})

    def flush(self) -> None:
        """Write what there is, as far as the disk takes it."""
        self._collect()
        try:
            self._push()
        except OSError as error:
            warnings.warn(
                f"{error.filename} cannot be written ({error.strerror}): numbers wait in memory; free some space",
                stacklevel=2,
            )

    def close(self) -> None:
        """The last chance to write what waits; a row is finished only when its numbers are safe on disk."""
        self._collect()
        self._push()
        for file in self.files:
            with open(file, "rb") as handle:
                os.fsync(handle.fileno())

    def _push(self) -> None:
        for growing in (*self.metrics, *self.accuracies):
            growing.push()

    def _collect(self) -> None:
        """Take the numbers of pending steps from the device."""
        if not self.pending:
            return
        keys = sorted({key for _, _, metrics in self.pending for key in metrics})
        absent = torch.full_like(self.pending[0][2]["loss"], math.nan, dtype=torch.float64)
        columns = [torch.stack([metrics.get(key, absent).double() for _, _, metrics in self.pending]) for key in keys]
        values = torch.stack(columns, dim=-1).cpu()  # [steps, replicas, keys]
        for replica, growing in enumerate(self.metrics):
            lines = []
            for (step, task, _), numbers in zip(self.pending, values[:, replica].tolist(), strict=True):
                known = _known(keys, numbers)
                lines.append(json.dumps({"step": step, "task": task} | known) + "\n")
                self._track(self.seeds[replica], step, known)
            growing.append("".join(lines))
        self.pending = []

    def _track(self, seed: int, step: int, values: Mapping[str, float | str]) -> None:
        """Infinities, which are words here, are not for curves."""
        for tracker in self.trackers:
            tracker.scalars(self.row, seed, step, {k: v for k, v in values.items() if isinstance(v, float)})


def _known(keys: Sequence[str], numbers: Sequence[float]) -> dict[str, float | str]:
    """Nine digits of what is known (a loss always is); JSON has no infinity, so that becomes a word."""
    pairs = [(key, n) for key, n in zip(keys, numbers, strict=True) if key == "loss" or not math.isnan(n)]
    return {key: float(f"{number:.9g}") if math.isfinite(number) else str(number) for key, number in pairs}
