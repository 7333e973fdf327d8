"""How long training takes, evaluations left out."""

import time
from typing import ClassVar

import torch

from gradcast.core import Metrics


class Stopwatch:
    """Time from the end of an evaluation to the last step before the next one; groups of seeds add up."""

    remembers: ClassVar[tuple[str, ...]] = ("tasks", "taken")

    def __init__(self) -> None:
        self.begun = self.mark = time.perf_counter()
        self.tasks: dict[int, float] = {}  # seconds a task
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()  # the peak is this row's

    @property
    def taken(self) -> tuple[float, float]:
        """Seconds in all, and since the latest evaluation."""
        now = time.perf_counter()
        return now - self.begun, now - self.mark

    @taken.setter
    def taken(self, seconds: tuple[float, float]) -> None:
        now = time.perf_counter()
        self.begun, self.mark = (now - each for each in seconds)

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """A GPU is still at work then: a step alone says nothing."""

    def trained(self, task: int) -> None:
        """All steps of the task count."""
        self.tasks[task] = self.tasks.get(task, 0.0) + time.perf_counter() - self.mark

    def evaluated(self, tasks_done: int, accuracy: torch.Tensor) -> None:
        """An evaluation's time does not."""
        self.mark = time.perf_counter()

    def as_dict(self, labelled_images: int | None) -> dict[str, object]:
        """Seconds in all, of training, of each task; milliseconds an image, if counted; peak memory of a GPU."""
        training = sum(self.tasks.values())
        found: dict[str, object] = {
            "seconds": round(time.perf_counter() - self.begun, 3),
            "training_seconds": round(training, 3),
            "task_seconds": [round(seconds, 3) for seconds in self.tasks.values()],
        }
        if labelled_images is not None:
            found["ms_per_labelled_image"] = round(1000 * training / labelled_images, 4)
        if torch.cuda.is_available():
            found["peak_gpu_memory_mb"] = torch.cuda.max_memory_allocated() >> 20
        return found
