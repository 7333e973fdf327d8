import time
from dataclasses import replace

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from gradcast.bench.step_times import NETWORKS, AsReleased, Drawer, Scene, time_steps
from gradcast.devices import Place
from tests.helpers import CPU

PLACE = Place(CPU, torch.float32)


def test_the_networks_are_the_published_ones() -> None:
    counts = {name: sum(p.numel() for p in network.make().parameters()) for name, network in NETWORKS.items()}
    assert counts == {"mlp": 89_610, "slim-resnet18": 1_109_240}


def test_every_past_task_has_full_memories_and_every_replica_sees_them() -> None:
    scene = Scene(NETWORKS["mlp"], 3, PLACE, memories=12, replicas=2)
    advance, model = scene.ours()
    assert [len(x) for x, _ in scene.past] == [12, 12]
    assert advance(0).shape == (2,)
    assert model.count == 2


def test_the_weights_have_come_through_the_earlier_tasks() -> None:
    network = replace(NETWORKS["mlp"], lived=30)
    at = [Scene(network, task, PLACE, memories=12).module for task in (1, 2, 3)]
    images, labels = Drawer(network, PLACE)(0, 300)
    right = [float((module(images).argmax(1) == labels).double().mean()) for module in at]
    assert right[0] < 0.3 < 0.5 < right[1]
    assert not torch.equal(next(at[1].parameters()), next(at[2].parameters()))


def test_as_released_numpy_has_its_threads_for_its_turns_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads(_: int) -> bool:
        seen.append({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
        return False

    seen: list[set[int]] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with threadpool_limits(1, user_api="blas"):
        time_steps(PLACE, 1, AsReleased(threads), threads)
    assert seen == [{2}] * 4 + [{1}] * 4


def test_timings_are_medians_of_both_kinds_of_steps_weighed_by_share(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0] * 6 + [0.0, 0.004, 1.0, 1.003, 2.0, 2.008])  # three steps of warm-up come first
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    (found,) = time_steps(PLACE, 3, lambda index: index % 2 == 0)
    assert found.milliseconds == pytest.approx((2 * 6.0 + 3.0) / 3)
    assert found.violating == pytest.approx(3.0)
    assert found.violated == pytest.approx(1 / 3)
