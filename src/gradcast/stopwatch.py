"""How long training takes, evaluations left out."""

import time

import torch

from gradcast.core import Metrics


class Stopwatch:
    """Time spent on training steps, evaluations left out."""

    def __init__(self) -> None:
        self.begun = self.mark = time.perf_counter()
        self.training = 0.0

    def stepped(self, step: int, task: int, metrics: Metrics) -> None:
        """A step's time counts."""
        now = time.perf_counter()
        self.training, self.mark = self.training + now - self.mark, now

    def evaluated(self, tasks_done: int, accuracy: torch.Tensor) -> None:
        """An evaluation's does not."""
        self.mark = time.perf_counter()

    def as_dict(self, labelled_images: int) -> dict[str, object]:
        """Seconds in all, seconds of training, milliseconds a labelled image and, on a GPU, its peak memory."""
        found: dict[str, object] = {
            "seconds": round(time.perf_counter() - self.begun, 3),
            "training_seconds": round(self.training, 3),
            "ms_per_labelled_image": round(1000 * self.training / labelled_images, 4),
        }
        if torch.cuda.is_available():
            found["peak_gpu_memory_mb"] = torch.cuda.max_memory_allocated() >> 20
        return found
