import torch
from torch import nn

from gradcast.networks.task_networks import TaskNetworks


def networks() -> TaskNetworks:
    torch.manual_seed(0)
    return TaskNetworks([nn.Linear(4, 2) for _ in range(3)])


def test_every_task_is_answered_by_its_own_network() -> None:
    made, x = networks().eval(), torch.rand(5, 4)
    for task, own in enumerate(made.networks):
        assert torch.equal(made(x)[:, 2 * task : 2 * task + 2], own(x))


def test_training_runs_the_present_network_alone() -> None:
    made, x = networks().train(), torch.rand(5, 4)
    made.present = 1
    found = made(x)
    assert torch.equal(found[:, 2:4], made.networks[1](x))
    assert not found[:, :2].any()
    assert not found[:, 4:].any()
    found.sum().backward()
    assert [own.weight.grad is not None for own in made.networks] == [False, True, False]
