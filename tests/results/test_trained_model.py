import pytest
import torch
from torch import nn

from gradcast.errors import GradcastError
from gradcast.results.preprocess import Preprocess
from gradcast.results.trained_model import TaskNetworks, TrainedModel
from gradcast.streams.scale import Scale

PREPROCESS = Preprocess((1, 2, 2), Scale())
X = torch.rand(3, 1, 2, 2)


def linear(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(4, outputs))


def test_it_is_an_ordinary_module_that_gives_all_logits() -> None:
    network = linear(4)
    model = TrainedModel(network, ["a", "b", "c", "d"], PREPROCESS, [(0, 1), (2, 3)]).eval()
    assert torch.equal(model(X), network(X))
    assert torch.equal(model.double()(X), network(X.double()))  # images follow the weights
    assert set(model.state_dict()) == {"network.1.weight", "network.1.bias"}
    assert [model.task_columns(task) for task in range(2)] == [slice(0, 2), slice(2, 4)]
    with pytest.raises(GradcastError, match="there is no task -1; tasks are 0 to 1"):
        model.task_columns(-1)


def test_columns_that_all_tasks_share_are_those_of_each() -> None:
    model = TrainedModel(linear(2), ["a", "b"], PREPROCESS, [(0, 1)] * 5)
    assert model.task_columns(4) == slice(0, 2)


def test_networks_of_tasks_stand_side_by_side_without_their_features() -> None:
    networks = [linear(5), linear(5)]
    both = TaskNetworks(networks, 2)
    assert torch.equal(both(X), torch.cat([network(X)[:, :2] for network in networks], 1))
    model = TrainedModel(both, ["a", "b", "c", "d"], PREPROCESS, [(0, 1), (2, 3)])
    assert torch.equal(model(X)[:, model.task_columns(1)], networks[1](X)[:, :2])
