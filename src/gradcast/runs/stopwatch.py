"""How long training takes, evaluations left out."""

import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch

from gradcast.core import Metrics

WARM_UP = 100  # first steps, in which kernels are compiled and memory is asked for: no image's cost


class Stopwatch:
    """Time from the end of an evaluation to the last step before the next one; groups of seeds add up."""

    checkpointed: ClassVar[tuple[str, ...]] = ("tasks", "evaluations", "warm_up", "warm", "taken")

    def __init__(self) -> None:
        self.begun = self.mark = self.stopped = time.perf_counter()
        self.tasks: dict[int, float] = {}  # seconds a task
        self.evaluations = 0.0  # seconds of those after tasks
        self.warm_up = 0.0  # of those of the first task, what its first steps took
        self.warm = False  # whether the group that trains is past them
        self.resumed = False  # another process began it: this one had to warm up in some later task
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
        self.resumed = seconds[0] > 0

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """A GPU is still at work then, so that a step alone says nothing; the last one of the warm-up waits for it."""
        if task == 0 and step + 1 == WARM_UP:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self._warmed(time.perf_counter() - self.mark)

    def trained(self, task: int) -> None:
        """All steps of the task count; a short first one is a warm-up as a whole."""
        self.stopped = time.perf_counter()
        seconds = self.stopped - self.mark
        self.tasks[task] = self.tasks.get(task, 0.0) + seconds
        if task == 0 and not self.warm:
            self._warmed(seconds)

    def _warmed(self, seconds: float) -> None:
        self.warm_up, self.warm = self.warm_up + seconds, True

    def evaluated(self, tasks_done: int, accuracy: torch.Tensor, unknown: torch.Tensor | None = None) -> None:
        """The time of an evaluation does not count as training."""
        self.mark, self.warm = time.perf_counter(), self.warm and tasks_done > 0  # 0: another group begins
        self.evaluations += self.mark - self.stopped if tasks_done else 0.0

    def as_dict(self, labelled_images: Sequence[int] | None, in_a_step: int) -> dict[str, object]:
        """Seconds in all, of training, of each task; the cost of an image, if they are counted; peak memory of a GPU.

        ``labelled_images`` are those of each task, of all seeds, and so are those ``in_a_step``.
        """
        found: dict[str, object] = {
            "seconds": round(time.perf_counter() - self.begun, 3),
            "training_seconds": round(sum(self.tasks.values()), 3),
            "evaluation_seconds": round(self.evaluations, 3),
            "task_seconds": [round(seconds, 3) for seconds in self.tasks.values()],
            "warm_up_seconds": round(self.warm_up, 3),
        }
        if labelled_images is not None:
            found |= self._cost(np.array(labelled_images, float), WARM_UP * in_a_step)
        if torch.cuda.is_available():
            found["peak_gpu_memory_mb"] = torch.cuda.max_memory_allocated() >> 20
        return found

    def _cost(self, images: np.ndarray, warm_up: int) -> dict[str, float]:
        """Milliseconds a labelled image after the warm-up, and how many more each further task adds."""
        seconds, first = np.array(list(self.tasks.values())), min(warm_up, images[0])
        if images.sum() > first:  # a single short task has nothing else
            seconds[0] -= self.warm_up
            images[0] -= first
        found = {"ms_per_labelled_image": round(1000 * float(seconds.sum() / images.sum()), 4)}
        each = 1000 * seconds[images > 0] / images[images > 0]
        if len(each) > 2 and not self.resumed:  # the slope of a straight line through the tasks
            found["ms_more_each_task"] = round(float(np.polyfit(np.arange(len(each)), each, 1)[0]), 5)
        return found
