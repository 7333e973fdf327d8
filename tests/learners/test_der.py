import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from gradcast.core import Batch
from gradcast.learners.der import Der, DerSpec
from gradcast.learners.er import ErSpec
from gradcast.memories.reservoir import Reservoir
from gradcast.replicas.heads import Heads
from gradcast.training.step import Step
from tests.helpers import batch, replicas
from tests.learners.scene import descend
from tests.replicas.test_replicas import own_module

HEADS, LR, ALPHA, COUNT = Heads.even(3, 2, masked=True), 0.1, 0.7, 3


def test_twenty_steps_of_two_tasks_equal_a_plain_spelling() -> None:
    follows_plain_steps(HEADS, beta=0.0)


def follows_plain_steps(heads: Heads, *, beta: float) -> None:
    """Trains the learner and its formula side by side."""
    model, memory = replicas(1, heads=heads, norm="batch"), Reservoir(8, [0])
    step = Step(model, Der(memory, COUNT, ALPHA, beta), LR)
    module = own_module(model, 0).train()
    slots, draws = Reservoir(8, [0]), Reservoir(8, [0])  # the same random numbers, whose slots are kept by hand
    stored: dict[int, tuple[Tensor, ...]] = {}
    for number in range(20):
        data, task = batch(model, seed=number), number // 10
        data = Batch(data.x, heads.labels(data.y % len(heads.task_columns[task]), task), task)
        step(data)
        _plain_step(module, data, stored, slots, draws, heads=heads, beta=beta)
        draws.seen = slots.seen
        weights = torch.cat([weight.detach().flatten() for weight in module.parameters()])
        torch.testing.assert_close(model.theta[0], weights, rtol=1e-9, atol=1e-12)


def _plain_step(
    module: torch.nn.Module,
    data: Batch,
    stored: dict[int, tuple[Tensor, ...]],
    slots: Reservoir,
    draws: Reservoir,
    *,
    heads: Heads,
    beta: float,
) -> None:
    """``CE(batch) + alpha * mean ||f(x') - u'||^2 + beta * CE(x'', y'')``; then the batch is stored with its logits."""
    outputs = module(data.x[0])
    loss = cross_entropy(heads.columns(outputs, data.task), data.y[0])
    if held := min(draws.seen, draws.size):
        images, logits, *_ = _drawn(stored, draws, held)
        loss = loss + ALPHA * mse_loss(module(images), logits)
        if beta:
            images, _, labels, tasks = _drawn(stored, draws, held)
            rows = zip(module(images), labels, tasks.tolist(), strict=True)
            seen = [
                cross_entropy(heads.columns(row, task if heads.masked else data.task), label)
                for row, label, task in rows
            ]
            loss = loss + beta * torch.stack(seen).mean()
    descend(list(module.parameters()), loss, LR)
    places = slots._places(slots.slots[0], len(data.y[0]))
    slots.seen += len(data.y[0])
    for image, logit, label, place in zip(data.x[0], outputs.detach(), data.y[0], places, strict=True):
        if place < slots.size:
            stored[int(place)] = (image, logit, label, torch.tensor(data.task))


def _drawn(stored: dict[int, tuple[Tensor, ...]], draws: Reservoir, held: int) -> list[Tensor]:
    """Images, logits, labels and tasks of as many random places."""
    chosen = draws.draws[0].choice(held, COUNT, replace=held < COUNT)
    return [torch.stack(part) for part in zip(*(stored[int(place)] for place in chosen), strict=True)]


def test_images_that_come_again_are_not_stored_again() -> None:
    model, memory = replicas(2, heads=HEADS), Reservoir(50, [0, 1])
    step = Step(model, Der(memory, COUNT, ALPHA), LR)
    data = batch(model, size=4)
    step(data)
    step(Batch(data.x, data.y, data.task, repeated=3))
    assert memory.held == 5
    step(Batch(data.x, data.y, data.task, repeated=4))
    assert memory.held == 5


def test_a_later_epoch_stores_images_with_the_logits_they_have_then() -> None:
    model, memory = replicas(2, heads=HEADS), Reservoir(50, [0, 1])
    step = Step(model, Der(memory, COUNT, ALPHA, every=True), LR)
    data = batch(model, size=4)
    step(data)
    module = own_module(model, 1)
    step(Batch(data.x, data.y, data.task, repeated=4))
    assert memory.held == 8
    held = memory.filled
    torch.testing.assert_close(held["x"][:, 4:], held["x"][:, :4])
    torch.testing.assert_close(held["logits"][1, 4:], module(data.x[1]).detach())
    assert not torch.allclose(held["logits"][1, 4:], held["logits"][1, :4])
    assert (DerSpec(name="der").store, ErSpec(name="er").store) == ("every", "first")


def test_replicas_together_equal_replicas_alone() -> None:
    together, alone = replicas(2, heads=HEADS), replicas(1, heads=HEADS, first_seed=1)
    step = Step(together, Der(Reservoir(6, [0, 1]), COUNT, ALPHA), LR)
    single = Step(alone, Der(Reservoir(6, [1]), COUNT, ALPHA), LR)
    for number in range(8):
        data = batch(together, seed=number)
        step(data)
        single(Batch(data.x[1:], data.y[1:], data.task))
    torch.testing.assert_close(together.theta[1:], alone.theta)
