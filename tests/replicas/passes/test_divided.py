import warnings

import pytest
import torch
from torch import nn

from gradcast.cluster.ranks import Ranks
from gradcast.replicas.passes import folded, one_by_one, vmapped
from gradcast.replicas.passes.divided import Divided, divided
from tests.cluster.divided_passes import Attention, Mixing, convolutions
from tests.cluster.two_ranks import ROOT, pairs

TWO = Ranks(0, 2, 0, ROOT)


@pytest.mark.parametrize(
    ("network", "count"),
    [
        ("convolutions", 7),
        ("convolutions", 2),
        ("convolutions", 1),
        ("dense", 7),
        ("dense", 2),
        ("attention", 7),
        ("attention", 1),
        ("mixing", 7),
    ],
)
def test_two_processes_give_what_one_gives(network: str, count: int) -> None:
    found = pairs(network, count)
    assert {"outputs", "gradient", "memories", "features", "pulled", "at images", "evaluated"} <= found.keys()
    assert network in ("attention", "mixing") or any("running_var" in name for name in found)
    for name, (one, two) in found.items():
        largest = max(1.0, float(one.double().abs().amax()))
        assert float((one - two).double().abs().amax()) < 1e-10 * largest, name


def test_networks_are_divided_where_images_meet_in_batchnorm_alone_or_not_at_all() -> None:
    x = torch.rand(3, 3, 4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(divided(folded.outputs, TWO, convolutions(), x), Divided)
        assert isinstance(divided(vmapped.outputs, TWO, Attention(), x), Divided)


@pytest.mark.parametrize("network", [Mixing(), nn.Sequential(nn.BatchNorm2d(3), Attention())])
def test_other_networks_are_computed_whole_and_named(network: nn.Module) -> None:
    x = torch.rand(3, 3, 4, 4)
    with pytest.warns(UserWarning, match="cannot be divided: every process computes all of them"):
        assert divided(vmapped.outputs, TWO, network, x) is vmapped.outputs
    with pytest.warns(UserWarning, match=f"the network {type(network).__name__}"):
        assert divided(one_by_one.outputs, TWO, network, x) is one_by_one.outputs


def test_passes_of_fewer_images_than_ranks_are_not_divided() -> None:
    way = Divided(folded.outputs, Ranks(0, 4, 0, ROOT))
    assert [way.divides(images) for images in (1, 3, 4, 9)] == [False, False, True, True]
    gradient = torch.ones(1, 1, 3)
    assert way.summed(gradient, 3) is gradient
