import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, leaky_relu

from gradcast.networks.wide_resnet import WideResNet
from gradcast.replicas.passes import folded
from gradcast.replicas.passes.choice import choose
from tests.helpers import flat


def test_wrn_28_2_has_the_usual_number_of_parameters() -> None:
    """All that is trained: filters, gain and shift of each BatchNorm, the linear layer; no running statistics."""
    assert flat(WideResNet(28, 2, 10)).numel() == counted(28, 2, 10) == 1_467_610


@pytest.mark.parametrize(("depth", "width", "outputs"), [(10, 1, 3), (16, 4, 100)])
def test_other_depths_and_widths(depth: int, width: int, outputs: int) -> None:
    assert flat(WideResNet(depth, width, outputs)).numel() == counted(depth, width, outputs)


def counted(depth: int, width: int, outputs: int) -> int:
    """Layer by layer: 3x3 filters between so many channels, two numbers a channel for BatchNorm, 1x1 projections."""
    total, before = 9 * 3 * 16, 16
    for stage in range(3):
        channels = 16 * width * 2**stage
        for _ in range((depth - 4) // 6):
            total += 2 * before + 9 * before * channels + 2 * channels + 9 * channels * channels
            total += before * channels if before != channels else 0
            before = channels
    return total + 2 * before + before * outputs + outputs


def test_forward_against_plain_functions() -> None:
    network = WideResNet(16, 2, 3, channels=1).double().train()
    for layer in network.modules():  # gains and shifts that matter
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.weight, 1.0, 0.3)
            nn.init.normal_(layer.bias, 0.0, 0.3)
    weights = {name: value.detach() for name, value in network.named_parameters()}
    x = torch.randn(3, 1, 8, 8, dtype=torch.float64)

    def normalised(h: Tensor, name: str) -> Tensor:
        shifted = batch_norm(h, None, None, weights[f"{name}.weight"], weights[f"{name}.bias"], training=True, eps=1e-3)
        return leaky_relu(shifted, 0.1)

    h = conv2d(x, weights["conv1.weight"], padding=1)
    for stage in (1, 2, 3):
        for block in (0, 1):
            name, stride = f"stage{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            active = normalised(h, f"{name}.bn1")
            inner = conv2d(active, weights[f"{name}.conv1.weight"], stride=stride, padding=1)
            inner = conv2d(normalised(inner, f"{name}.bn2"), weights[f"{name}.conv2.weight"], padding=1)
            if block == 0:  # the first shortcut of all starts after the leaky ReLU
                h = conv2d(active if stage == 1 else h, weights[f"{name}.shortcut.weight"], stride=stride)
            h = h + inner
    expected = normalised(h, "bn").mean((2, 3)) @ weights["linear.weight"].T + weights["linear.bias"]
    torch.testing.assert_close(network(x), expected)


def test_momentum_is_that_of_every_running_statistic() -> None:
    network = WideResNet(10, 1, 3, momentum=0.25).train()
    network(torch.randn(4, 3, 8, 8))
    layers = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(layers) == 7
    assert {(layer.momentum, layer.eps) for layer in layers} == {(0.25, 1e-3)}


def test_passes_are_folded() -> None:
    assert choose(WideResNet(10, 1, 3), torch.rand(2, 3, 8, 8)) is folded.outputs
