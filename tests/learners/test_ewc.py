from typing import Literal

import pytest
import torch
from pydantic import ValidationError
from torch.nn.functional import cross_entropy

from gradcast.learners.ewc import ENTRY, Ewc, EwcSpec
from gradcast.replicas.replicas import Replicas
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import Seen, descend
from tests.replicas.test_replicas import own_module

LR, WEIGHT, IMAGES = 0.1, 2.0, 6
OTHER = {"tasks": "online", "online": "tasks"}


def test_three_tasks_equal_a_plain_spelling() -> None:
    model = replicas(1)
    learner = Ewc(IMAGES, WEIGHT)
    step, module = Step(model, learner, LR), own_module(model, 0)
    weights, anchors = list(module.parameters()), []
    for task in range(3):
        seen = [batch(model, task=task, seed=10 * task + number) for number in range(5)]
        for data in seen:
            metrics = step(data)
            penalty = torch.zeros((), dtype=torch.float64)
            for fisher, then in anchors:
                terms = zip(fisher, weights, then, strict=True)
                penalty = penalty + WEIGHT * sum((f * (w - t).square()).sum() for f, w, t in terms)
            loss = cross_entropy(module(data.x[0]), data.y[0]) + penalty
            flat = descend(weights, loss, LR)
            if anchors:
                torch.testing.assert_close(metrics["penalty"][0], penalty.detach(), rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(model.theta[0], flat, rtol=1e-9, atol=1e-12)
        learner.task_ends(model, Seen(task, seen))
        x, y = torch.cat([each.x[0] for each in seen])[:IMAGES], torch.cat([each.y[0] for each in seen])[:IMAGES]
        gradients = torch.autograd.grad(cross_entropy(module(x), y), weights)
        anchors.append(([g.square() for g in gradients], [w.detach().clone() for w in weights]))


def test_running_statistics_do_not_see_the_pass_at_a_tasks_end() -> None:
    model: Replicas = replicas(2, norm="batch")
    before = {name: buffer.clone() for name, buffer in model.buffers.items()}
    Ewc(IMAGES, WEIGHT).task_ends(model, Seen(0, [batch(model, size=8)]))
    assert all(torch.equal(before[name], buffer) for name, buffer in model.buffers.items())


def test_the_first_task_has_no_penalty() -> None:
    model = replicas(2)
    learner = Ewc()
    assert learner.penalty(model) is None
    assert "penalty" not in Step(model, learner, LR)(batch(model))


@pytest.mark.parametrize(("form", "key"), [("tasks", "interval"), ("online", "memory")])
def test_settings_of_the_other_form_are_refused(form: Literal["tasks", "online"], key: str) -> None:
    with pytest.raises(ValidationError, match=rf"learner\.{key} belongs to learner\.form = '{OTHER[form]}'"):
        EwcSpec.model_validate({"name": "ewc", "form": form, key: 7})


def test_a_table_of_before_says_what_it_said() -> None:
    assert EwcSpec(name="ewc").model_dump() == {"name": "ewc", "lr": 0.1, "memory": 10, "penalty": 3.0}
    online = EwcSpec(name="ewc", form="online", interval=20)
    assert online.model_dump() == {"name": "ewc", "lr": 0.1, "memory": 10, "penalty": 3.0} | {
        "form": "online",
        "interval": 20,
    }
    assert [ENTRY.describe(table) for table in (EwcSpec(name="ewc"), online)] == ["EWC", "EWC, online"]
