import torch
from torch import nn

from gradcast.replicas.heads import Heads
from gradcast.replicas.replicas import Replicas
from gradcast.training.task_modules import TaskModules, made
from tests.helpers import CPU, flat


class TwoPart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared, self.own = nn.Linear(2, 3), nn.Linear(3, 2)


def modules() -> TaskModules:
    model = Replicas(made(TwoPart, [3, 4], "x", "model"), Heads.even(2), device=CPU, dtype=torch.float32)
    return TaskModules(model, TwoPart, [3, 4], shared="shared.", purpose="x")


def test_networks_depend_on_seed_and_names_alone() -> None:
    first, second, other = (flat(network) for network in (*made(TwoPart, [3, 4], "a"), *made(TwoPart, [3], "b")))
    assert torch.equal(first, flat(made(TwoPart, [3], "a")[0]))
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


def test_a_task_has_its_own_weights_and_shares_the_present_ones() -> None:
    own = modules()
    assert own.alone == slice(9, 17)
    theta = own.model.theta
    begun = theta.clone()
    own.begin(0)
    assert torch.equal(theta, begun)
    theta += 1
    trained = theta.clone()
    own.finish()
    own.begin(1)
    assert torch.equal(theta[:, :9], trained[:, :9])
    assert torch.equal(theta[:, 9:], own.fresh("task", 1)[:, 9:])
    theta[:, :9] += 5
    assert torch.equal(own.weights_for(0), torch.cat([trained[:, :9] + 5, trained[:, 9:]], dim=1))
    assert own.weights_for(1) is theta


def test_some_of_a_tasks_own_weights_may_go_on() -> None:
    model = modules().model
    own = TaskModules(model, TwoPart, [3, 4], shared="shared.w", purpose="x", renewed="shared.b")
    assert (own.alone, own.renewed) == (slice(6, 17), slice(6, 9))
    begun = model.theta.clone()
    own.finish()
    own.begin(1)
    assert torch.equal(model.theta[:, 6:9], own.fresh("task", 1)[:, 6:9])
    assert torch.equal(model.theta[:, 9:], begun[:, 9:])
    assert torch.equal(own.weights_for(0), begun)
