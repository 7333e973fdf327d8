"""What checkpoints cost: GEM with the slim ResNet-18, where its memories are largest beside its steps."""

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from gradcast.bench.step_times import Scene, wait
from gradcast.devices import Place
from gradcast.runs.checkpoint import file
from gradcast.runs.checkpoint.state import pack

STEPS = 250  # of a task of iCIFAR-100; a run is saved after each task and every ten minutes, which is rarer


@dataclass(frozen=True)
class Cost:
    """A checkpoint at the end of a task, beside the steps of that task."""

    task: int
    step_ms: float
    blocked_ms: float  # training waits while the state is copied
    written_ms: float  # a thread writes it meanwhile
    megabytes: float
    gpu: bool

    @property
    def share(self) -> float:
        """Of the task's time; on a CPU the writing thread takes its time from training, at worst all of it."""
        return (self.blocked_ms + (0.0 if self.gpu else self.written_ms)) / (STEPS * self.step_ms)


def saving(scene: Scene, place: Place, step_ms: float) -> Cost:
    """Copy and write the state at the scene's task, three times; the middle one counts."""
    step = scene.step()
    for index in range(2):
        step(scene.batch(index))
    with TemporaryDirectory() as folder:
        found = sorted((_once(step, place, Path(folder), index) for index in range(3)), key=lambda each: each[0])
    blocked, written, size = found[1]
    return Cost(scene.task + 1, step_ms, blocked, written, size / 1e6, place.device.type == "cuda")


def _once(step: object, place: Place, folder: Path, number: int) -> tuple[float, float, int]:
    """Milliseconds of copying and of writing, and bytes."""
    wait(place)
    begun = time.perf_counter()
    tensors: dict[str, torch.Tensor] = {}
    parts = pack({"step": step}, tensors)
    copied = time.perf_counter()
    path = file.write(folder, number, file.Content({"parts": parts}, tensors))
    done = time.perf_counter()
    return 1000 * (copied - begun), 1000 * (done - copied), path.stat().st_size
