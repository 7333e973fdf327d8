import pytest
import torch
from torch import Tensor, nn

from gradcast.errors import GradcastError
from gradcast.networks.featured import Featured
from gradcast.replicas.passes import folded, one_by_one
from gradcast.replicas.passes.ways import Ways


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def ways(*, inner: torch.dtype = torch.float32, whole: bool = True) -> Ways:
    return Ways(None, torch.float32, inner, whole=whole)


class Drawing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x + torch.randn_like(x))
        return y


def test_a_network_is_tried_once_and_stays_in_its_mode() -> None:
    own, module = ways(), layers().eval()
    assert own.of(module, torch.rand(2, 4)) is folded.outputs
    assert not module.training
    assert own.of(module, torch.rand(2, 99)) is folded.outputs  # no image is looked at again


def test_so_does_a_network_within_another() -> None:
    module = layers().eval()
    featured = Featured(module, 3)
    assert featured.training
    ways().of(featured, torch.rand(2, 4))
    assert not any(part.training for part in module.modules())


def test_only_networks_whose_linear_layers_have_all_weights_count_as_linear() -> None:
    own, module = ways(), layers()
    featured, filtered = Featured(module, 3), nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(2, 3))
    own.of(module, torch.rand(2, 4))
    own.of(featured, torch.rand(2, 4))
    own.of(filtered, torch.rand(2, 1, 2, 2))
    assert own.linear == {module}
    partly = ways(whole=False)
    partly.of(module, torch.rand(2, 4))
    assert not partly.linear


def test_networks_that_go_one_by_one_are_not_captured() -> None:
    own = ways()
    own.of(layers(), torch.rand(2, 4))
    assert own.capturable
    with pytest.warns(UserWarning, match="draws random numbers by other means than dropout"):
        assert own.of(Drawing(), torch.rand(2, 4)) is one_by_one.outputs
    assert not own.capturable


def test_bf16_is_refused_where_passes_cannot_be_folded() -> None:
    with pytest.warns(UserWarning, match="one by one"), pytest.raises(GradcastError, match="Drawing cannot"):
        ways(inner=torch.bfloat16).of(Drawing(), torch.rand(2, 4))
