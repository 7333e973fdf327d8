import pytest
import torch
from torch import nn

from gradcast.errors import GradcastError
from gradcast.networks import MLP
from gradcast.replicas.stacking import Pieces, stacked_weights, trained
from tests.helpers import CPU, flat
from tests.replicas.passes.reference import numbers


def test_weights_lie_in_rows_and_buffers_under_their_names() -> None:
    modules = [MLP([4, 3, 2], norm="batch") for _ in range(3)]
    theta, buffers = stacked_weights(modules, CPU, torch.float64)
    assert theta.dtype == torch.float64
    assert torch.equal(theta, torch.stack([flat(module) for module in modules]).double())
    assert {name: tuple(value.shape) for name, value in buffers.items()} == {
        name: (3, *value.shape) for name, value in modules[0].named_buffers()
    }
    counters = [value for name, value in buffers.items() if name.endswith("num_batches_tracked")]
    assert [counter.dtype for counter in counters] == [torch.int64]


def test_other_tensors_must_be_alike() -> None:
    modules = [MLP([4, 2]) for _ in range(2)]
    for number, module in enumerate(modules):
        module.layers[0].scale = torch.full((2,), float(number))
    with pytest.raises(GradcastError, match=r"MLP.layers.0.scale is a tensor that differs from seed to seed"):
        stacked_weights(modules, CPU, torch.float32)


def test_frozen_weights_are_marked() -> None:
    network = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Linear(1, 1, bias=False))
    assert trained(network) is None
    network[0].weight.requires_grad_(False)
    found = trained(network)
    assert found is not None
    assert found.tolist() == [0, 0, 1]


def test_pieces_split_and_their_gradient_joins() -> None:
    theta = numbers(2, 7).requires_grad_()
    pieces = Pieces.apply(theta, [3, 4])
    assert torch.equal(torch.cat(pieces, dim=-1), theta)
    factors = numbers(2, 7, seed=1)
    (gradient,) = torch.autograd.grad(pieces, theta, factors.split([3, 4], dim=-1))
    assert torch.equal(gradient, factors)
