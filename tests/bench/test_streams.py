from pathlib import Path

import pytest
import torch

from gradcast.bench import streams
from gradcast.bench.streams import Streams
from gradcast.devices import Place
from gradcast.specs.text import load
from gradcast.training.evaluate import SharedTests
from tests.helpers import CPU

PLACE = Place(CPU, torch.float32)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Streams:
    """Three short tasks instead of twenty."""
    monkeypatch.setenv("GRADCAST_CACHE", str(tmp_path))
    changes = ["stream.tasks=3", "stream.samples=100", "learner.memory=16"]
    monkeypatch.setattr(streams.specfile, "load", lambda name: load(name, changes))
    return Streams(tmp_path / "nothing here", PLACE)


def test_a_stand_in_has_the_size_of_mnist(small: Streams) -> None:
    assert not small.real
    data = small.prepared.data(small.setting, [0])
    assert data.stream.shape == (1, 28, 28)
    assert [len(task.train) for task in data.stream.tasks] == [60_000] * 3
    tests = small.prepared.tests(small.setting, data)
    assert isinstance(tests, SharedTests)
    assert len(tests.y) == 30_000


@pytest.mark.parametrize("complete", [True, False])
def test_streams_a_minute(small: Streams, complete: bool) -> None:
    found = small.measure(2, complete=complete)
    assert found.complete is complete
    assert found.per_minute == pytest.approx(120 / found.seconds)
    assert found.seconds > 0
