"""Images a second of meta-gradient with Conv-Large: all that ``gradcast ssl`` does in a step, on random images."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradcast.bench.stand_in import stand_in
from gradcast.bench.step_times import wait
from gradcast.data.cache import Cache, default_cache
from gradcast.data.load import Shelf, default_data, untracked
from gradcast.devices import Arithmetic, Place, choose_place
from gradcast.runs.prepared import PreparedRun
from gradcast.specs import text as specfile
from gradcast.training.loop import Loop
from gradcast.training.trainer import Turn

REPLICAS = (1, 3)
ARITHMETIC: tuple[Arithmetic, ...] = ("float32", "tf32", "bf16")  # the latter two on a GPU
GPU, CPU = (128, 50, 32), (4, 1, 16)  # images of either kind in a batch, timed steps, pixels of a side
WARM_UP = 3  # steps before the clock: one as it is, one captured, one replayed


@dataclass(frozen=True)
class Speed:
    """How fast so many seeds train together."""

    dtype: Arithmetic
    replicas: int
    batch: int  # images of either kind, labelled or not, of every seed
    size: int  # pixels of a side
    milliseconds: float  # a step
    peak_mb: int | None  # GPU memory

    @property
    def images_a_second(self) -> float:
        """Labelled and unlabelled ones of all seeds."""
        return 2 * self.batch * self.replicas / (self.milliseconds / 1000)


def kinds(device: torch.device) -> list[tuple[Arithmetic, int]]:
    """Every arithmetic that the device has, with every number of seeds."""
    found: Sequence[Arithmetic] = ARITHMETIC if device.type == "cuda" else ARITHMETIC[:1]
    return [(dtype, replicas) for dtype in found for replicas in REPLICAS]


def speed(device: str, dtype: Arithmetic, replicas: int) -> Speed:
    """Time steps one after another, images drawn and augmented, and wait for the device at the end alone."""
    place = choose_place(device, dtype)
    gpu = place.device.type == "cuda"
    batch, steps, size = GPU if gpu else CPU
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    loop = _loop(place, replicas, batch, size)
    turns = loop.schedule.turns(0, 0)
    for _ in range(WARM_UP if gpu else 1):
        _step(loop, next(turns))
    wait(place)
    begun = time.perf_counter()
    for _ in range(steps):
        _step(loop, next(turns))
    wait(place)
    milliseconds = 1000 * (time.perf_counter() - begun) / steps
    peak = torch.cuda.max_memory_allocated() >> 20 if gpu else None
    return Speed(dtype, replicas, batch, size, milliseconds, peak)


def _step(loop: Loop, turn: Turn) -> None:
    draws = loop.draws
    assert draws is not None
    loop.trainer.step(loop.schedule.order.batch(turn.number), lambda: draws.next(0), turn)


def _loop(place: Place, replicas: int, batch: int, size: int) -> Loop:
    """The row *mg* of the preset for CIFAR-10."""
    changes = [f"stream.batch={batch}", f"policy.batch={batch}", "stream.labels=400"]
    setting = next(row.setting for row in specfile.load("cifar10-4000", changes).rows if row.name == "mg")
    shelf = Shelf(default_data(), Cache(default_cache()), untracked)
    return PreparedRun(place, shelf, stand_in(10, 200, 1, size)).loop(setting, list(range(replicas)))
