from dataclasses import replace

import pytest
import torch

from gradcast.bench import saving
from gradcast.bench.saving import Cost
from gradcast.bench.step_times import NETWORKS, Scene
from gradcast.devices import Place

CPU = Place(torch.device("cpu"), torch.float32)


def test_a_checkpoint_holds_weights_and_the_filled_memories() -> None:
    scene = Scene(replace(NETWORKS["mlp"], lived=1), 3, CPU, memories=16)
    cost = saving.saving(scene, CPU, step_ms=100.0)
    weights, memories = 784 * 100 + 100 * 100 + 100 * 10 + 210, (2 * 16 + 16) * 784  # the third task's are being filled
    assert cost.megabytes == pytest.approx(4e-6 * (weights + memories), rel=0.2)
    assert cost.task == 3
    assert cost.blocked_ms > 0
    assert cost.written_ms > 0


def test_on_a_cpu_writing_is_taken_from_training() -> None:
    on_gpu = Cost(20, step_ms=30.0, blocked_ms=75.0, written_ms=300.0, megabytes=63.0, gpu=True)
    assert on_gpu.share == pytest.approx(0.01)
    assert replace(on_gpu, gpu=False).share == pytest.approx(0.05)
