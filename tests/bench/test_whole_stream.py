from pathlib import Path

import pytest
import torch

from gradcast.bench import streams, whole_stream
from gradcast.bench.streams import Streams, Throughput
from gradcast.bench.whole_stream import WholeStream, classical_stream
from gradcast.devices import Place
from gradcast.specs.text import load
from gradcast.training.trainer import StepTrainer
from tests.helpers import CPU


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Streams:
    """Three short tasks instead of twenty, in float64."""
    monkeypatch.setenv("GRADCAST_CACHE", str(tmp_path))
    changes = ["stream.tasks=3", "stream.samples=100", "learner.memory=16"]
    monkeypatch.setattr(streams.specfile, "load", lambda name: load(name, changes))
    return Streams(tmp_path / "nothing here", Place(CPU, torch.float64), "base")


def test_the_classical_stream_ends_where_ours_does(small: Streams) -> None:
    loop = small.prepared.loop(small.setting, [0])
    module, matrix = classical_stream(loop, small.setting.learner)
    ours = small.prepared.loop(small.setting, [0])
    ours.run([])
    theirs = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
    assert isinstance(ours.trainer, StepTrainer)
    torch.testing.assert_close(ours.trainer.model.theta[0], theirs, rtol=1e-9, atol=1e-11)
    assert len(matrix) == 4
    last = ours.tests(ours.trainer, range(3))[0]
    torch.testing.assert_close(last, torch.tensor(matrix[-1], dtype=torch.float64))
    assert matrix[0] != matrix[-1]


def test_seconds_of_all_three(small: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    said, trained = list[str](), list[str]()
    monkeypatch.setattr(whole_stream, "Streams", lambda data, place, row: trained.append(row) or small)
    monkeypatch.setattr(small, "measure", lambda count, complete: Throughput(count, 2.0, 30.0, complete, None))
    found = whole_stream.whole_stream(Path("data"), Place(CPU, torch.float64), said.append)
    assert trained == ["base"]
    assert found.ours == 2.0
    assert min(found.released, found.pinned) > 0
    assert [sentence.rpartition(": ")[2] for sentence in said] == [
        "ours",
        "the classical formulation as released",
        "the classical formulation with numpy's threads held back",
    ]


def test_ratios() -> None:
    found = WholeStream(released=60.0, pinned=30.0, ours=20.0)
    assert (found.ratio, found.pinned_ratio) == (3.0, 1.5)
