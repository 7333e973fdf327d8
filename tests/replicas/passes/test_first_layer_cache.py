import torch
from torch import Tensor

from gradcast.core import Batch
from gradcast.learners.gem import Gem
from gradcast.memories.ring import TaskMemory
from gradcast.replicas.passes import first_layer_cache as kept
from gradcast.replicas.replicas import Replicas
from gradcast.training.step import Step
from tests.helpers import batch, replicas


def first_layer(model: Replicas, x: Tensor) -> Tensor:
    weights = model.parameters(model.theta)
    name, bias = list(weights)[:2]
    return torch.stack([x[r].flatten(0, 1) @ weights[name][r].T + weights[bias][r] for r in range(model.count)])


def trained(steps: int, *, keep: bool) -> tuple[Replicas, list[float]]:
    """Two replicas through three tasks, first layers kept or computed anew in every step."""
    model = replicas(2)
    step = Step(model, Gem(TaskMemory(3, 8)), 0.05)
    projected: list[float] = []
    for number in range(steps):
        if not keep:
            model.kept.forget()
        projected += step(batch(model, task=3 * number // steps, seed=number))["projected"].tolist()
    return model, projected


def test_training_is_the_same_as_with_every_product_computed() -> None:
    (ours, projected), (plain, expected) = trained(60, keep=True), trained(60, keep=False)
    assert projected == expected
    assert True in projected[20:]
    assert False in projected[20:]
    torch.testing.assert_close(ours.theta, plain.theta, rtol=1e-11, atol=1e-13)


def test_outputs_follow_the_weights_in_some_replicas_or_all() -> None:
    model = replicas(2)
    x = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    model.recall(x, torch.zeros(2, 3, 4, dtype=torch.long), torch.arange(3), task=3, which=(3, 0))
    data = batch(model)
    gradient = model.forward(data.x, 0).pull(torch.ones(2, 4, 3, dtype=torch.float64))
    assert gradient.factors is not None
    other = gradient.flat.clone()
    other[1] = 1.0
    for flat, changed in ((gradient.flat, [False, False]), (other, [False, True])):
        model.step(flat, 0.1, gradient.factors, torch.tensor(changed))
        outputs = model.kept.first((3, 0))
        assert outputs is not None
        found = outputs.view(2, 12, -1)
        torch.testing.assert_close(found, first_layer(model, x), rtol=1e-12, atol=1e-13)


def test_nothing_is_kept_for_other_memories_weights_or_too_long() -> None:
    model = replicas(1)
    x, y = torch.randn(1, 1, 4, 6, dtype=torch.float64), torch.zeros(1, 1, 4, dtype=torch.long)
    model.recall(x, y, torch.arange(1), task=1, which=(1, 0))
    assert model.kept.first((1, 0)) is not None
    assert model.kept.first((2, 0)) is None
    assert model.kept.first((1, 1)) is None
    assert model.kept.first(None) is None
    model.kept.age = kept.AGE
    assert model.kept.first((1, 0)) is None
    model.kept.age = 0
    model.theta += 1.0
    assert model.kept.first((1, 0)) is None
    model.recall(x, y, torch.arange(1), task=1)
    assert model.kept.first(None) is None


def test_what_is_out_of_date_stays_so() -> None:
    model = replicas(1)
    data = batch(model)
    model.recall(data.x.unsqueeze(1), data.y.unsqueeze(1), torch.arange(1), task=1, which=(1, 0))
    gradient = model.forward(data.x, 0).pull(torch.ones(1, 4, 3, dtype=torch.float64))
    model.step(gradient.flat, 0.1, gradient.factors, torch.tensor([True]))
    model.step(gradient.flat, 0.1, gradient.factors, torch.tensor([False]))
    assert model.kept.first((1, 0)) is None
    assert model.kept.held is None


def test_a_step_of_unknown_making_forgets() -> None:
    model = replicas(1)
    data: Batch = batch(model)
    model.recall(data.x.unsqueeze(1), data.y.unsqueeze(1), torch.arange(1), task=1, which=(1, 0))
    model.step(torch.ones_like(model.theta), 0.1)
    assert model.kept.first((1, 0)) is None
    assert model.kept.held is None


def test_what_is_held_goes_over_to_the_same_weights_elsewhere() -> None:
    model, other = replicas(1), replicas(1)
    data = batch(model)
    for _ in range(3):
        model.recall(data.x.unsqueeze(1), data.y.unsqueeze(1), torch.arange(1), task=1, which=(1, 0))
        gradient = model.forward(data.x, 0).pull(torch.ones(1, 4, 3, dtype=torch.float64))
        model.step(gradient.flat, 0.1, gradient.factors, torch.tensor([False]))
    assert model.kept.held is not None
    other.theta.copy_(model.theta)
    other.kept.held = model.kept.held
    assert other.kept.age == 2
    assert torch.equal(other.kept.first((1, 0)), model.kept.first((1, 0)))  # type: ignore[arg-type]
