import numpy as np
import pytest
import torch

from gradcast.data.images import Images
from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.streams.scale import Scale
from gradcast.training import evaluate
from gradcast.training.evaluate import CHUNK, VALUES, Evaluator
from tests.helpers import CPU


class Brightness(torch.nn.Module):
    """Says class 1 where the pixel is brighter than its threshold."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = torch.nn.Parameter(torch.tensor([threshold]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = x.flatten(1)
        return torch.cat([self.threshold - value, value - self.threshold], dim=1)


def model(*thresholds: float) -> Replicas:
    return Replicas([Brightness(t) for t in thresholds], Heads(2), device=CPU, dtype=torch.float64)


def test_accuracy_of_every_replica_on_every_task() -> None:
    x = np.array([0, 100, 200, 255], np.uint8).reshape(4, 1, 1, 1)
    tests = [Images(x, np.array([0, 0, 1, 1])), Images(x[:2], np.array([1, 1]))]
    evaluator = Evaluator(tests, Scale(), drop_last=False, device=CPU, dtype=torch.float64)
    found = evaluator(model(0.5, 0.2))
    assert found.tolist() == [[1.0, 0.0], [0.75, 0.5]]


def test_drop_last_never_looks_at_the_last_image_and_counts_it_as_wrong() -> None:
    x = np.array([0, 0, 0, 255], np.uint8).reshape(4, 1, 1, 1)
    only_last_right = Images(x, np.array([1, 1, 1, 1]))
    for drop_last, expected in ((False, 0.25), (True, 0.0)):
        evaluator = Evaluator([only_last_right], Scale(), drop_last=drop_last, device=CPU, dtype=torch.float64)
        assert evaluator(model(0.5)).tolist() == [[expected]]


def test_large_images_come_in_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of CIFAR's size a GPU sees 2,552 at once, ten thousand of which would fill it with features."""
    assert VALUES // (3 * 32 * 32) == 2552
    assert CHUNK["cuda"] == VALUES // (28 * 28)
    x, y = np.zeros((11, 1, 2, 2), np.uint8), np.zeros(11, np.int64)
    x[7] = 255
    evaluator = Evaluator([Images(x, y)], Scale(), drop_last=False, device=CPU, dtype=torch.float64)
    single, seen = model(0.5), list[int]()
    monkeypatch.setattr(
        single, "classify", lambda images, tasks: seen.append(len(images)) or images[None, :, 0, 0, 0] > 0
    )
    for values in (18, 3, 10**9):
        monkeypatch.setattr(evaluate, "VALUES", values)
        assert evaluator(single).item() == 10 / 11
    assert seen == [4, 4, 3, *[1] * 11, 11]


def test_chunks_cover_everything() -> None:
    count = 2 * CHUNK["cpu"] + 7
    y = np.arange(count) % 2
    x = (255 * y).astype(np.uint8).reshape(count, 1, 1, 1)
    x[-1] = 255 - x[-1]
    evaluator = Evaluator([Images(x, y)], Scale(), drop_last=False, device=CPU, dtype=torch.float32)
    single = Replicas([Brightness(0.5)], Heads(2), device=CPU, dtype=torch.float32)
    assert evaluator(single).item() == (count - 1) / count
