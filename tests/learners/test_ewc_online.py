import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gradcast.core import Batch
from gradcast.learners.ewc_online import OnlineEwc
from gradcast.replicas.heads import Heads
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import Seen, descend
from tests.replicas.test_replicas import own_module

LR, STRENGTH, INTERVAL = 0.1, 2.0, 3


def test_three_tasks_equal_a_plain_spelling() -> None:
    heads = Heads.even(3, 3, masked=True)
    model = replicas(1, heads=heads, norm="batch")
    learner = OnlineEwc(INTERVAL, STRENGTH)
    step, module = Step(model, learner, LR), own_module(model, 0).train()
    weights = list(module.parameters())
    fisher = torch.zeros_like(model.theta[0])
    held: tuple[Tensor, Tensor] | None = None
    for task in range(3):
        squares = torch.zeros_like(fisher)
        learner.task_begins(model, Seen(task, []))
        for number in range(7):
            data = batch(model, task=task, seed=10 * task + number)
            metrics = step(data)
            if (number + 1) % INTERVAL == 0:
                fisher, squares = 0.1 * fisher + 0.9 * squares / INTERVAL, torch.zeros_like(fisher)
            loss = cross_entropy(module(data.x[0])[:, 3 * task : 3 * task + 3], data.y[0])
            gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, weights, retain_graph=True)])
            squares = squares + gradient**2
            if held is not None:
                penalty = STRENGTH * (held[0] * (torch.cat([w.flatten() for w in weights]) - held[1]) ** 2).sum()
                torch.testing.assert_close(metrics["penalty"][0], penalty.detach(), rtol=1e-9, atol=1e-12)
                loss = loss + penalty
            torch.testing.assert_close(model.theta[0], descend(weights, loss, LR), rtol=1e-9, atol=1e-12)
        learner.task_ends(model, Seen(task, []))
        scaled = (fisher - fisher.min()) / (fisher.max() - fisher.min())
        held = scaled, torch.cat([w.detach().flatten() for w in weights])
        assert learner.anchor.importance is not None
        assert (learner.anchor.importance.min(), learner.anchor.importance.max()) == (0, 1)


def test_the_importance_of_a_replica_at_rest_stays() -> None:
    together, alone = replicas(2), replicas(1)
    both, single = OnlineEwc(2, STRENGTH), OnlineEwc(2, STRENGTH)
    step, own = Step(together, both, torch.full((2,), LR)), Step(alone, single, torch.full((1,), LR))
    for number in range(9):
        data = batch(together, seed=number)
        if number == 5:
            step.at(None, torch.tensor([0.0, LR]))
        step(data)
        if number < 5:
            own(Batch(data.x[:1], data.y[:1], data.task))
    assert both.fisher is not None
    assert single.fisher is not None
    torch.testing.assert_close(both.fisher[:1], single.fisher)
    assert single.fisher.max() > 0


def test_an_interval_that_never_ends_holds_nothing() -> None:
    model, learner = replicas(2), OnlineEwc(50)
    Step(model, learner, LR)(batch(model))
    learner.task_ends(model, Seen(0, []))
    assert learner.anchor.importance is not None
    assert not learner.anchor.importance.any()
