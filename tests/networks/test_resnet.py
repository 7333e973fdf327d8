import torch
from torch.func import functional_call, stack_module_state, vmap

from gradcast.networks.resnet import BasicBlock, SlimResNet18
from tests.helpers import flat


def test_published_network_has_1109240_parameters() -> None:
    assert flat(SlimResNet18(20, 100)).numel() == 1_109_240


def test_without_outputs_it_ends_with_the_features_of_its_linear_layer() -> None:
    body, x = SlimResNet18(3, None).eval(), torch.rand(2, 3, 16, 16)
    assert flat(body).numel() == flat(SlimResNet18(3, 9)).numel() - (24 + 1) * 9
    stages = (body.layer1, body.layer2, body.layer3, body.layer4)
    expected = torch.nn.Sequential(body.conv1, body.bn1, *stages)(x).flatten(2).sum(2) / 4
    torch.testing.assert_close(body(x), expected)


def test_shapes_through_the_stages() -> None:
    network = SlimResNet18(4, 9)
    x = network.bn1(network.conv1(torch.randn(2, 3, 32, 32)))
    shapes = []
    for stage in (network.layer1, network.layer2, network.layer3, network.layer4):
        x = stage(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(4, 32, 32), (8, 16, 16), (16, 8, 8), (32, 4, 4)]
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 9)
    assert SlimResNet18(4, 9, channels=1)(torch.randn(2, 1, 28, 28)).shape == (2, 9)


def test_a_block_with_dead_convolutions_is_its_shortcut() -> None:
    block = BasicBlock(3, 3, 1).eval()
    torch.nn.init.zeros_(block.conv2.weight)
    x = torch.rand(1, 3, 4, 4)
    torch.testing.assert_close(block(x), x)  # BatchNorm of zeros is zero, and x is positive


def test_it_can_be_vmapped_with_buffers_of_its_own() -> None:
    modules = [SlimResNet18(2, 3).double().train() for _ in range(2)]
    params, buffers = stack_module_state(modules)  # type: ignore[arg-type]
    x = torch.randn(2, 4, 3, 16, 16, dtype=torch.float64)
    found = vmap(lambda p, b, x: functional_call(modules[0], (p, b), (x,)))(params, buffers, x)
    torch.testing.assert_close(found, torch.stack([module(x[r]) for r, module in enumerate(modules)]))
