import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradcast.bench import epoch_times as epochs
from gradcast.bench import few_labels, measure
from gradcast.bench import head_start_times as head_starts
from gradcast.bench import method_times as methods
from gradcast.bench.epoch_times import EpochTime
from gradcast.bench.few_labels import Speed
from gradcast.bench.head_start_times import HeadStartTime
from gradcast.bench.method_times import MethodTime
from gradcast.bench.ray_times import RayTimes
from gradcast.bench.step_times import Network, Scene
from gradcast.bench.streams import Throughput
from gradcast.bench.whole_stream import WholeStream
from gradcast.devices import Arithmetic, Place


class FewStreams:
    """Instead of training whole streams."""

    real = False

    def __init__(self, data: Path, place: Place) -> None:
        self.place = place

    def measure(self, replicas: int, *, complete: bool) -> Throughput:
        return Throughput(replicas, 2.0, 30.0 * replicas, complete, None)


def no_epoch(place: Place, dtype: Arithmetic, seeds: int, *, complete: bool) -> EpochTime:
    """Instead of training one."""
    return EpochTime(dtype, seeds, 40.0 * seeds, 40.0, complete, None)


def quick_speed(device: str, dtype: Arithmetic, replicas: int) -> Speed:
    return Speed(dtype, replicas, 128, 32, 50.0 * replicas, 12_345)


def quick_head_starts(place: Place, dtype: Arithmetic, steps: int) -> list[HeadStartTime]:
    return [HeadStartTime(dtype, seeds, 512, 20.0 * seeds, 30.0) for seeds in (1, 2)]


def no_method(place: Place, dtype: Arithmetic, learner: str, steps: int) -> MethodTime:
    return MethodTime(learner, dtype, 30.0, 1.5)


WHOLE = WholeStream(released=60.0, pinned=30.0, ours=20.0)
RAY = RayTimes(apart=20.0, together=12.0, many=24.0, cell_seconds=1.0)


@pytest.fixture(scope="module")
def found() -> measure.Bench:
    def small(network: Network, task: int, place: Place, *, memories: int = 256, replicas: int = 1) -> Scene:
        return Scene(replace(network, lived=1), task, place, memories=memories // 32, replicas=replicas)

    said: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(measure, "Scene", small)
        patched.setattr(measure, "Streams", FewStreams)
        patched.setattr(epochs, "epoch_time", no_epoch)
        patched.setattr(few_labels, "speed", quick_speed)
        patched.setattr(head_starts, "head_start_times", quick_head_starts)
        patched.setattr(methods, "method_time", no_method)
        patched.setattr(measure, "ray_times", lambda say: RAY)
        patched.setattr(measure, "whole_stream", lambda data, place, say: WHOLE)
        result = measure.bench(measure.Request("cpu", Path("data"), 2, [1, 2], said.append), list(measure.PARTS))
    assert any("task 20" in line for line in said)
    return result


def test_everything_is_measured(found: measure.Bench) -> None:
    assert [entry.task for entry in found.comparisons] == [2, 10, 20]
    assert [(g.varied, g.size) for g in found.growth] == [
        *(("task", n) for n in (2, 5, 10, 20)),
        *(("memories", n) for n in (64, 128, 256, 512)),
        *(("replicas", n) for n in (1, 2)),
    ]
    assert [(s.replicas, s.complete) for s in found.streams] == [(1, False), (2, False)]
    assert found.agreement is not None
    assert found.agreement < 1e-12
    told = json.loads(json.dumps(found.as_dict()))
    assert told["steps"] == 2
    assert told["machine"]["processor"]
    assert told["streams"][1]["per_minute"] == 60.0
    assert [entry["replicas"] for entry in told["few_labels"]] == [1, 3]
    assert told["few_labels_images_a_second"] == pytest.approx([5120.0, 5120.0])
    assert [(own["seeds"], own["milliseconds"]) for own in told["head_starts"]] == [(1, 20.0), (2, 40.0)]
    assert [own["ratio"] for own in told["head_start_rates"]] == [1.5, 1.5]
    assert [own["learner"] for own in told["methods"]] == methods.names()
    assert told["whole_stream"] == {"released": 60.0, "pinned": 30.0, "ours": 20.0}
    assert told["whole_stream_ratios"] == {"as released": 3.0, "pinned": 1.5}
    assert told["ray_ratios"] == pytest.approx({"two": 0.6, "overhead": 0.2})
    assert [(e["seeds"], e["seconds"], e["complete"]) for e in told["epochs"]] == [(1, 40.0, False), (5, 200.0, False)]


def test_only_what_is_asked_for_is_measured() -> None:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(epochs, "epoch_time", no_epoch)
        found = measure.bench(measure.Request("cpu", Path("data"), 2, [1], said.append), ["epochs"])
    assert [entry.seeds for entry in found.epochs] == [1, 5]
    others = (found.comparisons, found.growth, found.streams, found.checkpoints, found.few_labels, found.head_starts)
    assert not any((*others, found.methods))
    assert len(said) == 2
