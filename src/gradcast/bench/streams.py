"""Complete streams a minute: MNIST-R with GEM and predicted gradients, R seeds at once."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from gradcast.data.cache import Cache, default_cache
from gradcast.data.images import Images, Source
from gradcast.data.load import Shelf, untracked
from gradcast.devices import Place
from gradcast.runs.prepared import PreparedRun
from gradcast.specs import text as specfile
from gradcast.specs.spec import Setting
from gradcast.training.loop import Loop
from gradcast.training.trainer import StepTrainer

SAMPLED = 6  # steps a task that stand for all of them, where a complete stream would take too long


@dataclass(frozen=True)
class Throughput:
    """How long R streams take when they train together."""

    replicas: int
    seconds: float
    per_minute: float
    complete: bool  # every step and evaluation was made; otherwise a few steps of each task stand for all
    peak_mb: int | None  # GPU memory


class Streams:
    """A row of the preset mnist-r, as ``gradcast run`` would train it; a stand-in of its size without the data."""

    def __init__(self, data: Path, place: Place, row: str = "predicted") -> None:
        chosen = next(own for own in specfile.load("mnist-r").rows if own.name == row)
        self.setting: Setting = chosen.setting
        self.real = (data / "mnist").is_dir()
        shelf = Shelf(data, Cache(default_cache()), untracked)
        self.place = place
        self.prepared = PreparedRun(place, shelf, None if self.real else _stand_in())
        self.prepared.content(self.setting)  # stream and pool are made before the clock starts

    def measure(self, replicas: int, *, complete: bool) -> Throughput:
        """Train seeds 0 to R - 1 together."""
        seeds = list(range(replicas))
        if self.place.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        begun = time.perf_counter()
        loop = self.prepared.loop(self.setting, seeds)
        if complete:
            loop.run([])
            seconds = time.perf_counter() - begun
        else:
            seconds = self._sampled(loop)
        peak = torch.cuda.max_memory_allocated() >> 20 if self.place.device.type == "cuda" else None
        return Throughput(replicas, seconds, 60 * replicas / seconds, complete, peak)

    def _sampled(self, loop: Loop) -> float:
        """Seconds of a stream from its first task's steps and a few steps of each later one, memories full."""
        total, setting, trainer, draws = 0.0, self.setting, loop.trainer, loop.draws
        assert isinstance(trainer, StepTrainer)
        assert draws is not None
        for task in range(loop.data.tasks):
            loop.schedule.begin(task)
            turns = list(loop.schedule.turns(task, 0))
            batches = [loop.schedule.order.batch(turn.number) for turn in turns]
            taken = batches if task == 0 else batches[-SAMPLED:]
            if task:
                for batch in batches[:-SAMPLED]:  # memories fill as they would, without a step
                    trainer.update.learner.prepare(trainer.model, batch)
            begun = time.perf_counter()
            for batch in taken:
                trainer.step(batch, lambda: draws.next(0), turns[0])
            total += (time.perf_counter() - begun) * len(batches) / len(taken)
        begun = time.perf_counter()
        loop.tests(trainer, range(loop.data.tasks))
        return total + (setting.stream.task_count + 1) * (time.perf_counter() - begun)


def _stand_in() -> Source:
    """Random images in MNIST's numbers and sizes."""
    random = np.random.default_rng(0)

    def images(count: int) -> Images:
        return Images(random.integers(0, 256, (count, 1, 28, 28), np.uint8), random.integers(0, 10, count))

    return Source("stand-in", images(60_000), images(10_000), tuple(map(str, range(10))))
