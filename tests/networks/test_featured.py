import pytest
import torch
from torch import nn

from gradcast.errors import GradcastError
from gradcast.networks import MLP, SlimResNet18
from gradcast.networks.featured import Featured, last_linear
from tests.helpers import batch, replicas
from tests.replicas.passes.reference import numbers


def test_features_come_first_then_outputs() -> None:
    network = MLP([6, 5, 4, 3]).double()
    featured, x = Featured(network, 3), numbers(7, 6)
    found = featured(x)
    assert featured.width == 4
    torch.testing.assert_close(found[:, 4:], network(x))
    torch.testing.assert_close(found[:, :4] @ network.layers[-1].weight.T + network.layers[-1].bias, network(x))
    assert not network.layers[-1]._forward_pre_hooks


def test_the_hook_is_gone_after_a_failure() -> None:
    network = SlimResNet18(2, 3)
    with pytest.raises(RuntimeError):
        Featured(network, 3)(torch.zeros(2, 1, 8, 8))
    assert not network.linear._forward_pre_hooks


@pytest.mark.parametrize("network", [nn.Conv2d(3, 3, 1), nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 5))])
def test_networks_without_an_output_layer_are_refused(network: nn.Module) -> None:
    with pytest.raises(GradcastError, match="does not end in a linear layer of 3 outputs"):
        Featured(network, 3)


class Tokens(nn.Sequential):
    """Its layer sees three rows an image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = super().forward(x.unflatten(1, (3, 2)))
        return y[:, 0]


def test_the_layer_must_make_the_outputs_of_one_row_an_image() -> None:
    good = MLP([6, 5, 3], norm="batch")
    Featured(good, 3).check(torch.rand(2, 6))
    assert good.training
    assert not good.layers[-1]._forward_hooks
    for bad in (nn.Sequential(nn.Linear(6, 3), nn.Tanh()), Tokens(nn.Linear(2, 3))):
        with pytest.raises(GradcastError, match="does not end in a linear layer of 3 outputs"):
            Featured(bad, 3).check(torch.rand(2, 6))


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_replicas_embed_as_their_modules_do(norm: str) -> None:
    model = replicas(2, sizes=(6, 5, 4, 3), norm=norm)  # type: ignore[arg-type]
    x, slope = batch(model, size=8).x, numbers(2, 8, 4)
    modules = [module.train() for module in replicas(2, sizes=(6, 5, 4, 3), norm=norm).modules]  # type: ignore[arg-type]
    made = model.embed(x, statistics="separate")
    found = made.pull(slope).flat
    for replica, module in enumerate(modules):
        features = Featured(module, 3)(x[replica])[:, :4]
        torch.testing.assert_close(made.z[replica], features.detach())
        gradients = torch.autograd.grad(features, list(module.parameters()), slope[replica], allow_unused=True)
        pairs = zip(gradients, module.parameters(), strict=True)
        expected = torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])
        torch.testing.assert_close(found[replica], expected)


def test_the_last_linear_layer_is_the_output_layer() -> None:
    network = MLP([6, 5, 3])
    assert last_linear(network) == ("layers.2", network.layers[2])
    assert last_linear(nn.Conv2d(1, 1, 1)) is None
