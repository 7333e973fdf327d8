import pytest
import torch
from torch import nn

from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.learners.acl.acl import replicas
from gradcast.networks.acl_network import (
    AclNetwork,
    Head,
    HeadPerTask,
    Private,
    acl_network,
    linear_acl_network,
    residual_acl_network,
)
from gradcast.networks.resnet import SlimResNet18
from tests.helpers import CPU, flat

CIFAR = {"latent": 128, "widths": (1024, 1024, 512), "private_width": 32, "head_units": 32}
MINI = {"latent": 256, "widths": (512, 512, 512), "private_width": 16, "head_units": 128}


@pytest.mark.parametrize(
    ("side", "options", "counts", "total"),
    [
        (32, CIFAR, [2_897_984, 158_400, 8_837], 6_242_724),
        (84, MINI, [7_754_688, 943_072, 74_245], 28_101_028),
    ],
)
def test_published_modules_have_the_published_number_of_parameters(
    side: int, options: dict[str, object], counts: list[int], total: int
) -> None:
    network = acl_network((3, side, side), 5, **options)  # type: ignore[arg-type]
    parts = [flat(part).numel() for part in (network.shared, network.private, network.head)]
    assert parts == counts
    assert parts[0] + 20 * (parts[1] + parts[2]) == total


def test_a_residual_shared_module_is_the_slim_resnet_without_its_linear_layer() -> None:
    network = residual_acl_network((3, 32, 32), 5)
    parts = [flat(part).numel() for part in (network.shared, network.private, network.head)]
    private = (3 * 16 + 1) * 32 + (32 * 9 + 1) * 32 + (1152 + 1) * 160
    head = (320 + 1) * 32 + (32 + 1) * 16 + (16 + 1) * 5
    assert parts == [1_109_240 - 161 * 100, private, head]
    whole = SlimResNet18(20, 7).double().eval()
    names = {name: value for name, value in whole.state_dict().items() if not name.startswith("linear")}
    network.double().eval().shared.load_state_dict(names)
    x = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    zs = network(x)[:, 5:165]
    torch.testing.assert_close(whole(x), whole.linear(zs))


def test_private_modules_say_which_images_are_too_small() -> None:
    assert residual_acl_network((1, 10, 10), 2, width=1)(torch.rand(2, 1, 10, 10)).shape == (2, 2 + 16)
    with pytest.raises(GradcastError, match=r"need images of 10 x 10 pixels or more, not 9 x 12; set stream\.size"):
        residual_acl_network((1, 9, 12), 2, width=1)


def test_weights_lie_in_the_order_shared_private_head() -> None:
    names = [name.split(".")[0] for name, _ in acl_network((1, 12, 12), 3, latent=4, widths=(5,)).named_parameters()]
    assert list(dict.fromkeys(names)) == ["shared", "private", "head"]


def test_forward_is_logits_shared_private_and_the_head_sees_the_private_features_first() -> None:
    network = acl_network((1, 12, 12), 3, latent=4, widths=(5,), private_width=2, head_units=6).double().eval()
    x = torch.rand(7, 1, 12, 12, dtype=torch.float64)
    zs, zp = network.shared(x), network.private(x)
    h = torch.cat([zp, zs], dim=1)
    weights = list(network.head.parameters())
    for w, b in zip(weights[::2], weights[1::2], strict=True):
        h = h @ w.T + b if w is weights[-2] else (h @ w.T + b).relu()
    torch.testing.assert_close(network(x), torch.cat([h, zs, zp], dim=1))


def test_twice_the_channels_are_two_images_the_second_for_the_private_module() -> None:
    torch.manual_seed(0)
    network = acl_network((2, 12, 12), 3, latent=16, widths=(20,), private_width=4, head_units=12).eval()
    one, two = torch.rand(2, 5, 2, 12, 12)
    both = network(torch.cat([one, two], dim=1))
    torch.testing.assert_close(both[:, 3:19], network(one)[:, 3:19])
    torch.testing.assert_close(both[:, 19:], network(two)[:, 19:])
    torch.testing.assert_close(both[:, :3], network.head(torch.cat([network.private(two), network.shared(one)], 1)))
    assert not torch.equal(both[:, 19:], network(one)[:, 19:])


def test_the_published_dropouts() -> None:
    network = acl_network((3, 32, 32), 5, latent=4, widths=(8, 8, 8))
    rates = [
        [layer.p for layer in part.modules() if isinstance(layer, nn.Dropout)]
        for part in (network.private, network.head)
    ]
    assert rates == [[0.2, 0.5], [0.5]]


def test_a_residual_network_may_be_the_shared_module_and_all_is_folded() -> None:
    def make() -> AclNetwork:
        return AclNetwork(SlimResNet18(2, 4), Private((3, 16, 16), 4, 2), Head(4, 3, 6))

    model = replicas(make, [0, 1], Place(CPU, torch.float64))
    x = torch.rand(2, 5, 3, 16, 16, dtype=torch.float64)
    found = model.everything(x, statistics="frozen").z
    for replica, module in enumerate(model.modules):
        torch.testing.assert_close(found[replica], module(x[replica]))
    logits = model.forward(x, 1, statistics="frozen").z
    assert torch.equal(logits, found[..., :3])
    assert model.ways.chosen[model.module].__module__ == "gradcast.replicas.passes.folded"


def test_the_network_of_linear_layers_shows_both_modules_the_whole_image() -> None:
    made = linear_acl_network((1, 28, 28), 2, latent=6, widths=(8, 7), head_units=28).eval()
    counts = [[tuple(weight.shape) for weight in part.parameters()][::2] for part in (made.shared, made.private)]
    assert counts == [[(8, 784), (7, 8), (6, 7)], [(6, 784)]]
    x = torch.randn(3, 1, 28, 28)
    logits, zs, zp = made(x).split([2, 6, 6], dim=1)
    torch.testing.assert_close(zs, made.shared(x))
    torch.testing.assert_close(zp, made.private(x))
    torch.testing.assert_close(logits, made.head(torch.cat([zp, zs], dim=1)))


def test_heads_of_all_tasks_lie_side_by_side() -> None:
    heads = [Head(4, 3, 6).eval() for _ in range(2)]
    both, x = HeadPerTask(heads).eval(), torch.randn(5, 8)
    assert (both.classes, both.tasks) == (3, 2)
    for task, head in enumerate(heads):
        torch.testing.assert_close(both(x)[:, 3 * task : 3 * task + 3], head(x))
