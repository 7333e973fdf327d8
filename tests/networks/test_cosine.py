import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from gradcast.errors import GradcastError
from gradcast.networks import MLP, AlexNetLike, ConvLarge, EfficientNet, SlimResNet18
from gradcast.networks.cosine import CosineLinear, direction, with_cosine_head
from gradcast.networks.featured import Featured
from gradcast.replicas.heads import Heads
from gradcast.replicas.passes import folded
from gradcast.replicas.replicas import Replicas
from tests.helpers import CPU


def test_outputs_are_scaled_cosines() -> None:
    layer = CosineLinear(4, 3)
    with torch.no_grad():
        layer.scale.fill_(2.5)
    x = torch.randn(5, 4)
    expected = 2.5 * torch.stack([cosine_similarity(row, layer.weight) for row in x])
    torch.testing.assert_close(layer(x), expected)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "scale"]


def test_a_row_of_zeros_has_no_direction_and_no_gradient() -> None:
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    found = direction(x)
    torch.testing.assert_close(found.detach(), torch.tensor([[0.6, 0.8], [0.0, 0.0]]))
    (slope,) = torch.autograd.grad(found.sum(), x)
    assert slope.isfinite().all()
    assert not slope[1].any()


NETWORKS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "mlp": (MLP([6, 8, 8, 3]), (6,)),
    "slim": (SlimResNet18(2, 3), (3, 16, 16)),
    "conv-large": (ConvLarge(3), (3, 16, 16)),
    "alexnet": (AlexNetLike(3, shape=(3, 16, 16), latent=8, widths=(8,), channels=(2, 2, 2)), (3, 16, 16)),
    "efficientnet": (EfficientNet("lite0", 3, upsample=None), (3, 32, 32)),
}


@pytest.mark.parametrize("name", list(NETWORKS))
def test_features_have_both_signs_where_an_activation_cut_them(name: str) -> None:
    network, shape = NETWORKS[name]
    weight = Featured(network, 3)
    old = network.get_submodule(weight.name)
    assert isinstance(old, nn.Linear)
    made = Featured(with_cosine_head(network, 3), 3).eval()
    new = network.get_submodule(made.name)
    assert isinstance(new, CosineLinear)
    assert torch.equal(new.weight, old.weight)
    features: Tensor = made(torch.randn(20, *shape))[:, : made.width]
    assert (features < 0).any()
    assert (features > 0).any()
    activations = [layer for layer in network.modules() if isinstance(layer, nn.ReLU | nn.ReLU6)]
    assert name in ("slim", "conv-large") or activations  # earlier ones stay


def test_a_network_without_a_linear_output_layer_is_refused() -> None:
    with pytest.raises(GradcastError, match="does not end in a linear layer of 4 outputs"):
        with_cosine_head(MLP([6, 5, 3]), 4)


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_passes_of_all_replicas_are_folded(norm: str) -> None:
    modules = [with_cosine_head(MLP([6, 8, 8, 3], norm=norm), 3) for _ in range(2)]  # type: ignore[arg-type]
    model = Replicas(modules, Heads.even(3), device=CPU, dtype=torch.float64)
    x = torch.randn(2, 7, 6, dtype=torch.float64)
    made = model.everything(x)
    assert model.ways.chosen[model.module] is folded.outputs
    slope = torch.randn_like(made.z)
    flat = made.pull(slope).flat
    for replica, module in enumerate(model.modules):
        z = module.train()(x[replica])
        torch.testing.assert_close(made.z[replica], z.detach())
        expected = torch.autograd.grad(z, list(module.parameters()), slope[replica])
        torch.testing.assert_close(flat[replica], torch.cat([each.flatten() for each in expected]))
        module.eval()
