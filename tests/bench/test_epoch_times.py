from itertools import accumulate, count
from pathlib import Path

import pytest
import torch

from gradcast.bench import epoch_times as epochs
from gradcast.bench.epoch_times import Clock, EpochTime, epoch_time
from gradcast.bench.stand_in import stand_in
from gradcast.devices import Place
from gradcast.specs.text import load
from gradcast.training.loop import Observer
from tests.helpers import CPU

PLACE = Place(CPU, torch.float32)
SMALL = ["model.latent=4", "model.widths=[4]", "model.channels=[2, 2, 2]", "learner.private_width=2", "pool.count=64"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A narrow network, and few images."""
    monkeypatch.setenv("GRADCAST_CACHE", str(tmp_path))
    monkeypatch.setattr(epochs.specfile, "load", lambda name, changes: load(name, [*changes, *SMALL]))
    monkeypatch.setattr(epochs, "EACH", 32)
    monkeypatch.setattr(epochs, "SAMPLED", 16)
    monkeypatch.setattr(epochs, "TESTED", 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("complete", [True, False])
def test_an_epoch_of_several_seeds(complete: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "epochs", lambda self: [9.0, float(self.length)][: len(self.times) - 1])
    found = epoch_time(PLACE, "float32", 2, complete=complete)
    seconds = 3.0 if complete else 2 * 2.0  # 136 images are three batches; twice 68 are twice two
    assert found == EpochTime("float32", 2, seconds, seconds / 2, complete, None)


def test_the_stand_in_has_an_epoch_of_cifar_100() -> None:
    source = stand_in(epochs.CLASSES, epochs.EACH, epochs.TESTED)
    assert source.shape == (3, 32, 32)
    assert len(source.train) == 2125 + 375
    assert len(source.test) == 500


def test_the_clock_is_looked_at_before_training_and_after_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = accumulate(count(1))  # 1, 3, 6, 10
    monkeypatch.setattr(epochs.time, "perf_counter", lambda: float(next(ticks)))
    clock = Clock(3, PLACE)
    assert isinstance(clock, Observer)
    clock.evaluated(0, torch.zeros(1, 1))
    for step in range(9):
        clock.stepped(step, 0, {})
    clock.trained(0)
    clock.evaluated(1, torch.zeros(1, 1))
    assert clock.epochs() == [2.0, 3.0, 4.0]
