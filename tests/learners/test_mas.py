import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gradcast.learners.mas import Combine, Mas
from gradcast.replicas.heads import Heads, HeadsKind
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import Seen, descend
from tests.replicas.test_replicas import own_module

LR, STRENGTH, TOGETHER = 0.1, 0.3, 3
CLASSES = [(0, 1), (2, 3, 4), (1, 5)]  # uneven, and one class returns


def plain_importance(module: nn.Module, x: Tensor, columns: tuple[int, ...]) -> list[Tensor]:
    """``(1/N) sum over groups |d/dw sum_x ||f(x)||^2|`` in evaluation mode."""
    module.eval()
    weights = list(module.parameters())
    found = [torch.zeros_like(weight) for weight in weights]
    for group in x.split(TOGETHER):
        slopes = torch.autograd.grad(module(group)[:, list(columns)].square().sum(), weights)
        found = [total + slope.abs() / len(x) for total, slope in zip(found, slopes, strict=True)]
    module.train()
    return found


@pytest.mark.parametrize(
    ("combine", "kind"), [("reset", "masked"), ("average", "seen"), ("sum", "all"), ("reset", "shared")]
)
def test_three_tasks_equal_a_plain_spelling(combine: Combine, kind: HeadsKind) -> None:
    heads = Heads.even(3, 3) if kind == "shared" else Heads.of(CLASSES, kind)
    model = replicas(1, heads=heads, norm="batch")
    learner = Mas(STRENGTH, combine, TOGETHER)
    step, module = Step(model, learner, LR), own_module(model, 0).train()
    weights, omega, then = list(module.parameters()), list[Tensor](), list[Tensor]()
    for task, columns in enumerate(heads.task_columns):
        seen = [batch(model, task=task, seed=10 * task + number) for number in range(7)]
        places = [
            torch.randint(len(columns), each.y.shape, generator=torch.Generator().manual_seed(7)) for each in seen
        ]
        seen = [type(each)(each.x, heads.labels(y, task), task) for each, y in zip(seen, places, strict=True)]
        for data in seen:
            metrics = step(data)
            loss = cross_entropy(heads.columns(module(data.x[0]), task), data.y[0])
            for o, w, t in zip(omega, weights, then, strict=True) if omega else ():
                loss = loss + STRENGTH * (o * (w - t).square()).sum()
            torch.testing.assert_close(model.theta[0], descend(weights, loss, LR), rtol=1e-9, atol=1e-12)
            assert ("penalty" in metrics) == bool(omega)
        learner.task_ends(model, Seen(task, seen))
        new = plain_importance(module, torch.cat([each.x[0] for each in seen]), columns)
        old = omega or [torch.zeros_like(weight) for weight in weights]
        if combine == "average":
            new = [0.5 * o + 0.5 * n for o, n in zip(old, new, strict=True)]
        elif combine == "sum":
            new = [o + n for o, n in zip(old, new, strict=True)]
        omega, then = new, [weight.detach().clone() for weight in weights]


def test_the_pass_at_a_tasks_end_leaves_running_statistics_alone() -> None:
    model = replicas(2, norm="batch")
    before = {name: buffer.clone() for name, buffer in model.buffers.items()}
    Mas().task_ends(model, Seen(0, [batch(model, size=8)]))
    assert all(torch.equal(before[name], buffer) for name, buffer in model.buffers.items())


def test_importance_keeps_its_place_in_memory() -> None:
    model, learner = replicas(2), Mas()
    learner.task_ends(model, Seen(0, [batch(model)]))
    first = learner.anchor.importance
    learner.task_ends(model, Seen(0, [batch(model, seed=1)]))
    assert learner.anchor.importance is first
