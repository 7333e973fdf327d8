import pytest
import torch
from torch.func import vmap

from gradcast.gradients.cross_entropy import cross_entropy
from gradcast.replicas.heads import ABSENT, Heads, HeadsKind


def test_shared_head_gives_all_columns() -> None:
    heads = Heads.even(3, tasks=4)
    logits = torch.randn(2, 3)
    assert heads.outputs == 3
    assert heads.columns(logits, 2) is logits


@pytest.mark.parametrize("task", [0, 1, 3])
def test_masked_head_gives_the_tasks_columns(task: int) -> None:
    heads = Heads.even(3, tasks=4, masked=True)
    logits = torch.arange(24.0).view(2, 12)
    expected = logits[:, 3 * task : 3 * task + 3]
    assert heads.outputs == 12
    assert torch.equal(heads.columns(logits, task), expected)
    assert torch.equal(heads.columns_at(logits, torch.tensor(task), 3), expected)


@pytest.mark.parametrize("task", [0, 1, 3])
def test_columns_seen_are_those_up_to_the_task(task: int) -> None:
    logits = torch.arange(24.0).view(2, 12)
    assert torch.equal(Heads.even(3, tasks=4, masked=True).seen(logits, task), logits[:, : 3 * task + 3])
    assert Heads.even(12, tasks=4).seen(logits, task) is logits


def test_columns_of_many_tasks_under_vmap() -> None:
    heads = Heads.even(2, tasks=3, masked=True)
    logits, tasks = torch.randn(3, 4, 6), torch.tensor([2, 0, 1])
    found = vmap(heads.own)(logits, tasks)
    assert torch.equal(found, torch.stack([heads.columns(logits[i], int(t)) for i, t in enumerate(tasks)]))


@pytest.mark.parametrize("masked", [False, True])
def test_extra_columns_after_the_logits_belong_to_no_task(masked: bool) -> None:
    heads, plain = Heads.even(2, tasks=3, masked=masked, extra=4), Heads.even(2, tasks=3, masked=masked)
    outputs, tasks = torch.randn(3, heads.outputs), torch.tensor([2, 0, 1])
    logits = outputs[:, : plain.outputs]
    assert heads.outputs == plain.outputs + 4
    assert torch.equal(heads.columns(outputs, 1), plain.columns(logits, 1))
    assert torch.equal(heads.columns_at(outputs, tasks, 2), plain.columns_at(logits, tasks, 2))


def test_classes_of_masked_heads_are_numbered_through() -> None:
    y, tasks = torch.tensor([0, 2, 1]), torch.tensor([0, 1, 3])
    assert Heads.even(3, tasks=4, masked=True).classes(y, tasks).tolist() == [0, 5, 10]
    assert torch.equal(Heads.even(3, tasks=4).classes(y, tasks), y)


# Two classes, one more, one that returns beside a new one, and three of which none is new.
UNEVEN = ((7, 4), (9,), (4, 2), (2, 9, 7))
COLUMNS = [[0, 1], [2], [1, 3], [3, 2, 0]]


def test_columns_are_numbered_in_the_order_in_which_classes_appear() -> None:
    heads = Heads.of(UNEVEN, "masked")
    assert [list(own) for own in heads.task_columns] == COLUMNS
    assert (heads.logits, heads.width, heads.seen_by) == (4, 3, (2, 3, 4, 4))
    assert Heads.of([(5, 3), (8, 1)], "masked") == Heads.even(2, 2, masked=True)
    assert Heads.of([(0, 1, 2)] * 4, "masked") == Heads.even(3, 4, masked=True)
    assert Heads.of([(0, 1, 2)] * 4, "shared") == Heads.even(3, 4)


@pytest.mark.parametrize("task", range(4))
def test_a_task_with_fewer_classes_has_absent_logits(task: int) -> None:
    heads, outputs = Heads.of(UNEVEN, "masked", extra=2), torch.randn(5, 6)
    found = heads.columns(outputs, task)
    expected = torch.full((5, 3), ABSENT)
    expected[:, : len(COLUMNS[task])] = outputs[:, COLUMNS[task]]
    assert torch.equal(found, expected)
    assert torch.equal(heads.own(outputs, torch.full((5,), task)), expected)
    assert heads.absent == ABSENT
    assert Heads.even(3, 4, masked=True).absent is None


def test_absent_logits_have_no_probability_no_gradient_and_no_answer() -> None:
    heads, tasks = Heads.of(UNEVEN, "masked"), torch.tensor([0, 1, 2, 3])
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        outputs = (100 * torch.randn(4, 4)).to(dtype).requires_grad_()
        z = heads.own(outputs, tasks)
        loss, dz = cross_entropy(z.detach(), torch.tensor([1, 0, 1, 2]))
        assert loss.isfinite()
        assert dz[:3, 2].tolist() == [0, 0, 0]
        assert dz[1].tolist() == [0, 0, 0]
        assert (z.argmax(-1) < torch.tensor([2, 1, 2, 3])).all()
        assert all(z.softmax(-1)[0, 2:] == 0)
        (slope,) = torch.autograd.grad(z, outputs, torch.ones_like(z))
        assert torch.equal(slope, torch.tensor([[1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 1]]).to(dtype))


def test_losses_over_the_classes_seen_and_over_all() -> None:
    outputs, tasks = torch.randn(3, 4), torch.tensor([0, 0, 1])
    seen, every = Heads.of(UNEVEN, "seen"), Heads.of(UNEVEN, "all")
    expected = outputs.clone()
    expected[:, 3] = ABSENT
    assert torch.equal(seen.columns(outputs, 1), expected)
    assert torch.equal(seen.columns_at(outputs, tasks, 1), expected)
    assert torch.equal(every.columns_at(outputs, tasks, 1), outputs)
    for heads in (seen, every):
        assert (heads.width, heads.logits) == (4, 4)
        assert torch.equal(heads.own(outputs, tasks), Heads.of(UNEVEN, "masked").own(outputs, tasks))


def test_labels_of_batches_are_places_among_the_logits_of_a_loss() -> None:
    y, tasks = torch.tensor([1, 0, 1, 2]), torch.tensor([0, 1, 2, 3])
    columns = [COLUMNS[task][place] for task, place in zip(tasks.tolist(), y.tolist(), strict=True)]
    masked, seen = Heads.of(UNEVEN, "masked"), Heads.of(UNEVEN, "seen")
    assert torch.equal(masked.labels(y, tasks), y)
    assert masked.classes(y, tasks).tolist() == columns
    labels = seen.labels(y, tasks)
    assert labels.tolist() == columns
    assert seen.classes(labels, tasks).tolist() == columns
    assert seen.labels(torch.tensor([2, 0]), 3).tolist() == [0, 3]
    even = Heads.of([(4, 2), (0, 1)], "all")
    assert even.labels(torch.tensor([1, 0]), 1).tolist() == [3, 2]


@pytest.mark.parametrize("kind", ["masked", "seen", "all"])
def test_a_gradient_at_columns_leads_to_the_outputs_they_were_taken_from(kind: HeadsKind) -> None:
    heads, tasks = Heads.of([(4, 7), (9,), (7, 2)], kind), torch.tensor([[0, 1, 2], [2, 0, 1]])
    outputs = torch.randn(2, 3, heads.outputs, dtype=torch.float64, requires_grad=True)
    found = heads.columns_at(outputs, tasks, 2)
    slopes = torch.randn_like(found)
    (slopes * torch.where(found == ABSENT, 0.0, found)).sum().backward()
    assert outputs.grad is not None
    torch.testing.assert_close(heads.at_outputs(slopes, outputs.detach(), tasks, 2), outputs.grad)
