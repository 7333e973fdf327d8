import json

import numpy as np
import torch
from torch import Tensor

from gradcast.core import Batch
from gradcast.memories.refilled import RefilledMemory
from gradcast.replicas.heads import Heads
from gradcast.runs.checkpoint.state import pack, restore
from tests.helpers import CPU

CLASSES = [(0, 1), (2, 3, 4), (5,)]


def memory(size: int, seeds: tuple[int, ...] = (0, 1)) -> RefilledMemory:
    return RefilledMemory(Heads.of(CLASSES, "seen"), size, list(seeds))


def fill(own: RefilledMemory, task: int, each: int) -> None:
    """``each`` images of every class of a task, class by class in turn; image n of class c holds 100 c + n."""
    y = torch.tensor(CLASSES[task]).repeat(each).expand(len(own.owner), -1).contiguous()
    x = 100 * y + torch.arange(each).repeat_interleave(len(CLASSES[task]))
    rooms = own.shrink(task)
    for part in range(0, y.shape[1], 4):
        rows = slice(part, part + 4)
        own.write(Batch(x[:, rows, None].double(), y[:, rows], task), rooms, {"values": x[:, rows].double()})


def held(own: RefilledMemory, replica: int = 0) -> dict[int, list[int]]:
    """Numbers of the images of every class."""
    found = own.filled["x"][replica, own.owner[replica] >= 0, 0].int().tolist()
    return {label: sorted(n % 100 for n in found if n // 100 == label) for label in range(6)}


def test_the_first_images_of_every_class_stay_and_new_classes_share_the_rest() -> None:
    own = memory(13)
    fill(own, 0, 20)
    counts = [len(images) for images in held(own).values()]
    assert sorted(counts[:2]) == [6, 7]
    fill(own, 1, 20)
    found = held(own)
    assert [len(found[label]) for label in (0, 1)] == [2, 2]  # 13 // 5
    assert [len(found[label]) for label in (2, 3, 4)] == [3, 3, 3]
    assert all(images == list(range(len(images))) for images in found.values())
    fill(own, 2, 20)
    assert [len(images) for images in held(own).values()] == [2, 2, 2, 2, 2, 3]
    assert torch.equal(own.filled["values"], own.filled["x"].squeeze(-1))
    assert torch.equal(own.filled["y"], own.filled["x"].squeeze(-1).long() // 100)


def test_rests_go_to_classes_that_each_replica_draws() -> None:
    own = memory(13, tuple(range(12)))
    fill(own, 0, 20)
    longer = {max(range(2), key=lambda label: len(held(own, replica)[label])) for replica in range(12)}
    assert longer == {0, 1}


def test_where_images_are_few_slots_stay_free_and_are_never_drawn() -> None:
    own = memory(30)
    fill(own, 0, 4)
    assert [len(images) for images in held(own).values()] == [4, 4, 0, 0, 0, 0]
    chosen = own.draw(8)
    assert [sorted(row) for row in chosen.tolist()] == [list(range(8))] * 2
    assert [sorted(row) for row in own.draw(16).tolist()] == [sorted(2 * list(range(8)))] * 2
    fill(own, 1, 20)
    counts = [len(images) for images in held(own).values()]
    assert (counts[:2], sorted(counts[2:])) == ([4, 4], [0, 7, 7, 8])


def test_images_of_other_tasks_are_not_stored() -> None:
    own = memory(10, (0,))
    rooms = own.shrink(0)
    tasks = torch.tensor([[1, 0, 1, 0]])
    own.write(Batch(torch.zeros(1, 4, 1), torch.tensor([[2, 1, 3, 0]]), 0, tasks=tasks), rooms, {})
    assert sorted(own.owner[0].tolist())[-2:] == [0, 1]
    assert np.count_nonzero(own.owner >= 0) == 2


def test_an_image_is_edited_at_its_nth_use_with_probability_one_nth() -> None:
    own = memory(8, tuple(range(400)))
    fill(own, 0, 4)
    rates = []
    for _ in range(4):
        once, edited = own.use(np.tile([0, 3, 3, 0], (400, 1)))
        assert once.tolist() == [[True, True, False, False]] * 400
        assert not (edited & ~once).any()
        rates.append(edited[:, :2].mean())
    assert rates[0] == 1.0
    np.testing.assert_allclose(rates[1:], [1 / 2, 1 / 3, 1 / 4], atol=0.06)
    assert own.uses[0].tolist() == [4, 0, 0, 4, 0, 0, 0, 0]
    own.shrink(1)
    assert not own.uses.any()


def test_a_step_draws_into_the_same_places_and_says_what_to_edit() -> None:
    own = memory(8)
    assert own.draw_step(3, 64) is None
    fill(own, 0, 4)
    first, second = own.draw_step(3, 64), own.draw_step(3, 64)
    assert first is not None
    assert second is not None
    for name in ("once", "slots"):
        assert getattr(first, name).data_ptr() == getattr(second, name).data_ptr()
    for name in ("dark", "known", "further"):
        assert getattr(first, name).x.data_ptr() == getattr(second, name).x.data_ptr()
    assert second.further.y.shape == (2, 8)
    edited = second.slots < own.size
    images = torch.cat([second.dark.x, second.known.x], 1).squeeze(-1)
    for replica in range(2):
        stored = own.filled["x"][replica, second.slots[replica][edited[replica]], 0]
        assert torch.equal(stored, images[replica][edited[replica]])
        assert second.once[replica].sum() == len(set(images[replica].tolist()))


def test_shuffled_images_come_once_and_fill_up_the_last_part() -> None:
    own = memory(13)
    fill(own, 0, 20)
    seen: list[Tensor] = []
    for drawn, slots in own.shuffled(5):
        assert drawn.y.shape == slots.shape == (2, 5)
        kept = slots[0] < own.size
        assert torch.equal(own.filled["x"][0, slots[0][kept]], drawn.x[0, kept])
        seen.append(slots)
    whole = torch.cat(seen, 1)
    assert whole.shape == (2, 15)
    assert [sorted(row) for row in whole.tolist()] == [[*range(13), 13, 13]] * 2
    assert not torch.equal(whole[0], whole[1])


def test_it_goes_on_where_it_was_saved() -> None:
    own, twin = memory(13), memory(13)
    for task in (0, 1):
        fill(own, task, 20)
    own.draw_step(3, 5)
    tensors: dict[str, Tensor] = {}
    packed = json.loads(json.dumps(pack(own, tensors)))
    restore(twin, packed, tensors, CPU)
    fill(own, 2, 5)
    fill(twin, 2, 5)
    here, there = own.draw_step(3, 5), twin.draw_step(3, 5)
    assert here is not None
    assert there is not None
    assert torch.equal(here.dark.x, there.dark.x)
    assert torch.equal(here.slots, there.slots)
    assert held(own) == held(twin)
