"""Short runs back to back in one process: does anything pile up?"""

import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from gradcast.errors import GradcastError
from gradcast.learners.registry import LEARNERS
from gradcast.runs.checkpoint.keeper import Safety
from gradcast.runs.run import run
from gradcast.signals.registry import SIGNALS
from gradcast.specs import text as specfile

TINY: dict[str, Any] = {
    "seeds": [0, 1],
    "stream": {"source": "digits", "scenario": "rotated", "tasks": 3, "samples": 60},
    "model": {"name": "mlp", "hidden": [16]},
    "policy": {"p": 0.5},
}
WARM_UP = 0.2  # share of the runs after which libraries have loaded and caches have filled


@dataclass(frozen=True)
class Sample:
    """What the process holds after one of the runs."""

    seconds: float  # since the beginning
    resident_mb: float
    open_files: int
    threads: int


@dataclass(frozen=True)
class Soak:
    """How many runs were trained, and what the process held after each."""

    runs: int
    samples: Sequence[Sample]

    def growth(self, name: str) -> tuple[float, float]:
        """Medians of a tenth of all samples, after the warm-up and at the end."""
        values = [float(getattr(sample, name)) for sample in self.samples]
        tenth, start = max(len(values) // 10, 1), int(WARM_UP * len(values))
        return median(values[start : start + tenth]), median(values[-tenth:])

    def as_dict(self) -> dict[str, object]:
        """Samples and growth by name, for JSON."""
        names = ("resident_mb", "open_files", "threads")
        return {
            "runs": self.runs,
            "minutes": self.samples[-1].seconds / 60,
            **{name: dict(zip(("early", "late"), self.growth(name), strict=True)) for name in names},
            "samples": [asdict(sample) for sample in self.samples],
        }


def soak(minutes: float, say: Callable[[str], None]) -> Soak:
    """Every learner with every signal in turn, each run with checkpoints and a report, for so long."""
    if not Path("/proc/self/statm").is_file():
        raise GradcastError("a soak reads memory and open files from /proc, which this system does not have")
    begun, samples = time.monotonic(), list[Sample]()
    learners = [name for name in LEARNERS.own if name != "python" and "own-network" not in LEARNERS[name].traits]
    signals = [name for name in SIGNALS.own if name != "python"]
    pairs = [(learner, signal) for signal in sorted(signals) for learner in sorted(learners)]
    for number in count():
        learner, signal = pairs[number % len(pairs)]
        say(f"{number} runs; now {learner} with {signal}")
        _one(learner, signal)
        samples.append(_sample(time.monotonic() - begun))
        if samples[-1].seconds >= 60 * minutes:
            return Soak(number + 1, samples)
    raise AssertionError


def _one(learner: str, signal: str) -> None:
    pool = "held-out" if signal == "true-labels" else "patches"
    own = {"learner": {"name": learner}, "signal": {"name": signal}, "pool": {"name": pool}}
    model = TINY["model"] | ({"heads": "masked"} if "new-classes" in LEARNERS[learner].traits else {})
    spec = specfile.parse({"name": "soak", **TINY, **own, "model": model})
    with TemporaryDirectory() as out, warnings.catch_warnings(action="ignore"):
        run(spec, out=out, device="cpu", safety=Safety(minutes=0, steps=5))


def _sample(seconds: float) -> Sample:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    resident = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return Sample(seconds, resident, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")))
