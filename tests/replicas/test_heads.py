import pytest
import torch
from torch.func import vmap

from gradcast.replicas.heads import Heads


def test_shared_head_gives_all_columns() -> None:
    heads = Heads(3, tasks=4)
    logits = torch.randn(2, 3)
    assert heads.outputs == 3
    assert heads.columns(logits, 2) is logits


@pytest.mark.parametrize("task", [0, 1, 3])
def test_masked_head_gives_the_tasks_columns(task: int) -> None:
    heads = Heads(3, tasks=4, masked=True)
    logits = torch.arange(24.0).view(2, 12)
    expected = logits[:, 3 * task : 3 * task + 3]
    assert heads.outputs == 12
    assert torch.equal(heads.columns(logits, task), expected)
    assert torch.equal(heads.columns_at(logits, torch.tensor(task)), expected)


@pytest.mark.parametrize("task", [0, 1, 3])
def test_columns_seen_are_those_up_to_the_task(task: int) -> None:
    logits = torch.arange(24.0).view(2, 12)
    assert torch.equal(Heads(3, tasks=4, masked=True).seen(logits, task), logits[:, : 3 * task + 3])
    assert Heads(12, tasks=4).seen(logits, task) is logits


def test_columns_of_many_tasks_under_vmap() -> None:
    heads = Heads(2, tasks=3, masked=True)
    logits, tasks = torch.randn(3, 4, 6), torch.tensor([2, 0, 1])
    found = vmap(heads.columns_at)(logits, tasks)
    assert torch.equal(found, torch.stack([heads.columns(logits[i], int(t)) for i, t in enumerate(tasks)]))


@pytest.mark.parametrize("masked", [False, True])
def test_extra_columns_after_the_logits_belong_to_no_task(masked: bool) -> None:
    heads, plain = Heads(2, tasks=3, masked=masked, extra=4), Heads(2, tasks=3, masked=masked)
    outputs, tasks = torch.randn(3, heads.outputs), torch.tensor([2, 0, 1])
    logits = outputs[:, : plain.outputs]
    assert heads.outputs == plain.outputs + 4
    assert torch.equal(heads.columns(outputs, 1), plain.columns(logits, 1))
    assert torch.equal(heads.columns_at(outputs, tasks), plain.columns_at(logits, tasks))


def test_classes_of_masked_heads_are_numbered_through() -> None:
    y, tasks = torch.tensor([0, 2, 1]), torch.tensor([0, 1, 3])
    assert Heads(3, tasks=4, masked=True).classes(y, tasks).tolist() == [0, 5, 10]
    assert torch.equal(Heads(3, tasks=4).classes(y, tasks), y)
