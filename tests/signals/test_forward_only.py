import torch

from gradcast.signals.forward_only import ForwardOnly
from tests.signals.scene import scene


def test_no_gradient_but_statistics_that_saw_the_pool() -> None:
    at, signal = scene(norm="batch"), ForwardOnly()
    assert at.learn(signal) == {}
    before = at.model.buffers["layers.1.running_mean"].clone()
    assert not at.gradient(signal).any()
    assert torch.equal(before, at.model.buffers["layers.1.running_mean"])
    assert not at.gradient(signal, statistics="update").any()
    assert not torch.equal(before, at.model.buffers["layers.1.running_mean"])
