import json

import numpy as np
import pytest
import torch
from torch import Tensor

from gradcast.memories.exemplars import OUTPUTS, Exemplars
from gradcast.replicas.heads import Heads
from gradcast.runs.checkpoint.state import pack, restore
from tests.helpers import CPU

HEADS = Heads.of([(0, 1), (2, 3), (4, 5, 6)], "masked")


def images(*counts: int, first: float = 0.0) -> list[Tensor]:
    """Images of several classes; class c of a task has the numbers 10 c, 10 c + 1 and so on."""
    return [first + 10.0 * place + torch.arange(count).view(count, 1) for place, count in enumerate(counts)]


def filled(*, latest: bool = False) -> Exemplars:
    memory = Exemplars(HEADS, 12, seeds=[3, 4], latest=latest)
    memory.write(0, [images(6, 6), images(2, 5)], 7)
    memory.write(1, [images(3, 3, first=100), images(3, 0, first=100)], 7)
    return memory


def test_all_classes_so_far_share_the_memory_and_earlier_ones_are_not_shrunk() -> None:
    memory = filled()
    assert memory.shares == [6, 3, 1]
    assert [len(x) for x in memory.images(0)] == [6, 6, 3, 3]
    assert [x.flatten().tolist() for x in memory.images(1)] == [[0, 1], [10, 11, 12, 13, 14], [100, 101, 102], []]
    assert (memory.sets, memory.held, memory.places.size) == (4, 18, 21)


def test_a_draw_has_an_image_of_every_class_or_another_of_its_task() -> None:
    memory = filled()
    seen = [set[float](), set[float]()]
    for _ in range(60):
        drawn = memory.draw()
        assert drawn is not None
        assert drawn.tasks.tolist() == [[0, 0, 1, 1]] * 2
        classes = (drawn.x.squeeze(-1) // 10).int().tolist()
        assert classes == [[0, 1, 10, 11], [0, 1, 10, 10]]
        for replica in range(2):
            seen[replica] |= set(drawn.x[replica].flatten().tolist())
    assert [len(each) for each in seen] == [18, 10]
    assert Exemplars(HEADS, 12, seeds=[0]).draw() is None


def test_the_released_draw_goes_no_further_than_the_newest_sets() -> None:
    memory = filled(latest=True)
    drawn = [memory.draw() for _ in range(60)]
    assert max(float((each.x[0] % 10).max()) for each in drawn if each is not None) == 2


def test_images_of_a_draw_belong_to_runs_of_tasks() -> None:
    memory = filled()
    memory.write(2, [images(1, 1, 1, first=200), images(1, 1, 1, first=200)], 7)
    drawn, runs = memory.draw(), memory.runs(CPU)
    assert drawn is not None
    assert [(run.tasks.tolist(), run.width) for run in runs] == [([0, 1], 2), ([2], 3)]
    assert [run.of(drawn.tasks)[0].tolist() for run in runs] == [[[0, 0], [1, 1]], [[2, 2, 2]]]


def test_members_are_the_columns_of_filled_slots() -> None:
    memory = filled()
    members = memory.members(CPU)
    assert members.shape == (2, 18, 7)
    assert members.sum(1).tolist() == [[6, 6, 3, 3, 0, 0, 0], [2, 5, 3, 0, 0, 0, 0]]
    means = members.transpose(1, 2) @ memory.filled["x"]
    assert means[1, :3, 0].tolist() == [1, 60, 303]


@pytest.mark.parametrize("continued", [False, True])
def test_it_goes_on_where_it_was(continued: bool) -> None:
    memory, again = filled(), filled() if continued else Exemplars(HEADS, 12, seeds=[3, 4])
    memory.keep_outputs([[x + torch.arange(7) for x in memory.images(replica)] for replica in range(2)])
    memory.draw()
    tensors: dict[str, Tensor] = {}
    restore({"memory": again}, json.loads(json.dumps(pack({"memory": memory}, tensors))), tensors, CPU)
    for _ in range(3):
        one, other = memory.draw(), again.draw()
        assert one is not None
        assert other is not None
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.fields[OUTPUTS], one.x + torch.arange(7))
        assert torch.equal(other.fields[OUTPUTS], one.fields[OUTPUTS])
    assert np.array_equal(memory.counts, again.counts)
