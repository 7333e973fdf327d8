import math

import pytest
import torch

from gradcast.core import Batch
from gradcast.signals.task_progress import Progress


def batch(task: int) -> Batch:
    return Batch(torch.zeros(1, 1, 1), torch.zeros(1, 1, dtype=torch.long), task)


def test_it_is_the_share_of_the_task_that_is_done() -> None:
    progress = Progress(lambda task: (4, 2)[task], torch.zeros(0, dtype=torch.float64))
    place, seen = progress.share.data_ptr(), []
    for task in (0, 0, 0, 0, 1, 1, 1):
        progress.prepare(batch(task))
        seen.append(float(progress.share))
    assert seen == [0, 0.25, 0.5, 0.75, 0, 0.5, 1]  # not beyond the whole
    assert progress.share.data_ptr() == place


def test_weights_rise_in_the_first_part() -> None:
    progress = Progress(lambda task: 8, torch.zeros(0, dtype=torch.float64))
    seen = []
    for _ in range(8):
        progress.prepare(batch(0))
        seen.append(float(progress.risen(0.5)))
    assert seen[:4] == pytest.approx([math.exp(-5 * (1 - t) ** 2) for t in (0, 0.25, 0.5, 0.75)])
    assert seen[4:] == [1, 1, 1, 1]
    assert progress.risen(0.0) == 1
