"""What a run writes while it trains: the numbers of every step and the accuracies after every task."""

import csv
import hashlib
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.core import Metrics
from gradcast.errors import GradcastError, warn
from gradcast.runs.directory import RunDirectory
from gradcast.runs.manifest import ACCURACY, UNKNOWN_TASK
from gradcast.runs.safe_files import named, open_file, synchronise
from gradcast.runs.trackers import Tracker

FRESH = "start over with --fresh"


def _new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


class Growing:
    """A file that only grows; what the disk does not take waits for the next time."""

    def __init__(self, path: Path) -> None:
        self.path, self.waiting = path, b""
        self.length, self.total = 0, _new_digest()  # of what is written

    @property
    def name(self) -> str:
        """Relative to the row's folder."""
        return f"{self.path.parent.name}/{self.path.name}"

    def append(self, text: str) -> None:
        """Add text to what the next ``push`` writes."""
        self.waiting += text.encode()

    def push(self) -> None:
        """Write what waits, all of it or, with an OSError, nothing."""
        if not self.waiting:
            return
        handle, left = self._opened(), memoryview(self.waiting)
        try:
            while left:
                left = left[os.write(handle, left) :]
        except OSError as error:
            with suppress(OSError):  # half a line would be taken for damage
                os.ftruncate(handle, self.length)
            raise named(error, self.path) from None
        finally:
            os.close(handle)
        self.total.update(self.waiting)
        self.length, self.waiting = self.length + len(self.waiting), b""

    def _opened(self) -> int:
        """The file, if it is still as long as it was left."""
        if not self.path.parent.is_dir():
            raise GradcastError(f"{self.path.parent} was deleted while it was written; the same command starts over")
        try:
            handle = open_file(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise named(error, self.path) from None
        found = os.fstat(handle).st_size
        if found != self.length:
            os.close(handle)
            raise GradcastError(f"{self.path} has {found} bytes and not the {self.length} that were written; {FRESH}")
        return handle

    def cut(self, length: int, digest: str) -> None:
        """Cut the file back to where it was, if it is what it was as far as that."""
        self.length, self.total, self.waiting = length, _new_digest(), b""
        try:
            with open(self.path, "rb") as file:
                self.total.update(file.read(length))
        except FileNotFoundError:
            if length:
                raise GradcastError(f"{self.path} is missing; {FRESH}") from None
            return
        if self.path.stat().st_size < length or self.total.hexdigest() != digest:
            raise GradcastError(f"{self.path} is not what its checkpoint says; {FRESH}")
        handle = open_file(self.path, os.O_RDWR)
        try:
            os.ftruncate(handle, length)
        finally:
            os.close(handle)


class Recorder:
    """Writes the metrics and accuracies of one row while it trains; numbers leave the device once a task.

    Of long tasks only ``every`` so many steps' numbers are kept, and written at once. ``both``: accuracies come with
    the task of test images and without it.

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
        both: bool = False,
    ) -> None:
        self.row, self.seeds, self.trackers, self.every = row, seeds, trackers, every
        self.places = [directory.seed(row, seed) for seed in seeds]
        self.metrics = [Growing(place / "metrics.jsonl") for place in self.places]
        self.accuracies = [Growing(place / ACCURACY) for place in self.places]
        self.unknown = [Growing(place / UNKNOWN_TASK) for place in self.places] if both else []
        self.pending: list[tuple[int, int, Metrics]] = []

    @property
    def files(self) -> list[Path]:
        """What it writes, as far as it is there."""
        return [each.path for each in self._growing() if each.path.is_file()]

    @property
    def written(self) -> dict[str, tuple[int, str]]:
        """Length and digest of every file, with all that is known so far; an OSError where the disk is full."""
        self._collect()
        self._push()
        return {each.name: (each.length, each.total.hexdigest()) for each in self._growing()}

    @written.setter
    def written(self, lengths: dict[str, tuple[int, str]]) -> None:
        """Cut the files back to where they were; names are looked up among ours and never opened."""
        if set(lengths) != {each.name for each in self._growing()}:
            raise ValueError("it names other files than those of the row's seeds")
        for each in self._growing():
            each.cut(*lengths[each.name])

    def _growing(self) -> list[Growing]:
        return [*self.metrics, *self.accuracies, *self.unknown]

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """Keep the step's numbers until the next write, or write them where few steps' are kept."""
        if (step + 1) % self.every:
            return
        self.pending.append((step, task, metrics))
        if self.every > 1:
            self.flush()

    def trained(self, task: int) -> None:
        """Do nothing: the end of a task is written with its evaluation."""

    def evaluated(
        self, tasks_done: int, accuracy: Float[Tensor, "r tasks"], unknown: Float[Tensor, "r tasks"] | None = None
    ) -> None:
        """Write what is pending and a row of each replica's accuracy matrix, or matrices."""
        kinds = [("accuracy", self.accuracies, accuracy)]
        if unknown is not None:
            kinds.append(("accuracy_unknown_task", self.unknown, unknown))
        for _, files, matrix in kinds:
            for growing, values in zip(files, matrix.tolist(), strict=True):
                growing.append(_matrix_row(tasks_done, values))
        self.flush()
        for name, _, matrix in kinds:
            for seed, values in zip(self.seeds, matrix.tolist(), strict=True):
                named = {f"{name}/task_{task}": value for task, value in enumerate(values)}
                self._track(seed, tasks_done, named | {f"{name}/mean": sum(values) / len(values)})

    def flush(self) -> None:
        """Write what there is, as far as the disk takes it."""
        self._collect()
        try:
            self._push()
        except OSError as error:
            warn(f"{error.filename} cannot be written ({error.strerror}): numbers wait in memory; free some space")

    def close(self) -> None:
        """The last chance to write what waits; a row is finished only when its numbers are safe on disk."""
        self._collect()
        self._push()
        for file in self.files:
            synchronise(file)

    def _push(self) -> None:
        for growing in self._growing():
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


def _matrix_row(tasks_done: int, values: Sequence[float]) -> str:
    """A line of an accuracy matrix; before the first, its heading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if tasks_done == 0:
        writer.writerow(["tasks_done", *(f"task_{task}" for task in range(len(values)))])
    writer.writerow([tasks_done, *values])
    return text.getvalue()


def _known(keys: Sequence[str], numbers: Sequence[float]) -> dict[str, float | str]:
    """Nine digits of what is known (a loss always is); JSON has no infinity, so that becomes a word."""
    pairs = [(key, n) for key, n in zip(keys, numbers, strict=True) if key == "loss" or not math.isnan(n)]
    return {key: float(f"{number:.9g}") if math.isfinite(number) else str(number) for key, number in pairs}
