"""Seconds an epoch: ACL with predicted gradients on random images in the numbers and sizes of CIFAR-100."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gradcast.bench.stand_in import stand_in
from gradcast.bench.step_times import wait
from gradcast.core import Metrics
from gradcast.data.cache import Cache, default_cache
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Arithmetic, Place
from gradcast.runs.prepared import PreparedRun
from gradcast.specs import text as specfile

CLASSES, EACH, TESTED = 5, 500, 100  # of a task; images of a class to train and to test on
SAMPLED = 30  # instead of EACH, where an epoch would take too long: two batches
EPOCHS = {"cpu": (1, 1), "cuda": (2, 3)}  # before the clock (compilation, graph capture), and on it
CHANGES = ("stream.tasks=1", "schedule.reset=never", "pool.name=patches", "pool.transform=plain", "pool.scale=labelled")


@dataclass(frozen=True)
class EpochTime:
    """An epoch of so many seeds together: training, and the evaluation at its end."""

    dtype: Arithmetic
    seeds: int
    seconds: float
    seconds_a_seed: float
    complete: bool  # every batch was trained on; otherwise a few stand for all
    peak_mb: int | None  # GPU memory


def kinds(device: torch.device) -> list[tuple[Arithmetic, int]]:
    """One seed and five in float32; on a GPU five in every other arithmetic too."""
    others: tuple[Arithmetic, ...] = ("tf32", "bf16") if device.type == "cuda" else ()
    return [("float32", 1), ("float32", 5), *((dtype, 5) for dtype in others)]


def epoch_time(place: Place, dtype: Arithmetic, seeds: int, *, complete: bool) -> EpochTime:
    """The preset acl-cifar100 in its first task, all seeds as one group; the median of several epochs."""
    gpu = place.device.type == "cuda"
    before, timed = EPOCHS[place.device.type]
    each = EACH if complete else SAMPLED
    changes = [*CHANGES, f"schedule.epochs={before + timed}", *([] if complete else ["policy.start=0"])]
    setting = next(row.setting for row in specfile.load("acl-cifar100", changes).rows if row.name == "predicted")
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    shelf = Shelf(Path(), Cache(default_cache()), untracked)
    loop = PreparedRun(place, shelf, stand_in(CLASSES, each, TESTED)).loop(setting, range(seeds))
    clock = Clock(loop.extent.epochs[0], place)
    loop.run([clock])
    seconds = median(clock.epochs()[before:]) * EACH / each
    peak = torch.cuda.max_memory_allocated() >> 20 if gpu else None
    return EpochTime(dtype, seeds, seconds, seconds / seeds, complete, peak)


@dataclass
class Clock:
    """An observer that looks at the clock when training begins and after every epoch of so many steps."""

    length: int
    place: Place
    times: list[float] = field(default_factory=list)

    def epochs(self) -> list[float]:
        """Seconds that each epoch took."""
        return np.diff(self.times).tolist()

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """An epoch's last step comes after its evaluation."""
        if (step + 1) % self.length == 0:
            self._look()

    def trained(self, task: int) -> None:
        """All epochs are over."""

    def evaluated(
        self, tasks_done: int, accuracy: Float[Tensor, "r tasks"], unknown: Float[Tensor, "r tasks"] | None = None
    ) -> None:
        """Start the clock at the evaluation before training."""
        if tasks_done == 0:
            self._look()

    def _look(self) -> None:
        wait(self.place)
        self.times.append(time.perf_counter())
