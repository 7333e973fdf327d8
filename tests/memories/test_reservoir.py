import json

import numpy as np
import torch
from torch import Tensor

from gradcast.core import Batch, Replay
from gradcast.memories.reservoir import Reservoir
from gradcast.runs.checkpoint.state import pack, restore
from tests.helpers import CPU


def numbered(first: int, count: int, replicas: int = 2, task: int = 0) -> Batch:
    """Image n holds n, and so does its label."""
    y = torch.arange(first, first + count).expand(replicas, -1).contiguous()
    return Batch(y.double().unsqueeze(-1), y, task)


def kept(reservoir: Reservoir) -> Replay:
    return Replay(**reservoir.filled)


def test_everything_is_kept_while_there_is_room() -> None:
    reservoir = Reservoir(5, [0, 1])
    reservoir.write(numbered(0, 3))
    assert kept(reservoir).y.tolist() == [[0, 1, 2]] * 2
    reservoir.write(numbered(3, 2, task=1))
    assert kept(reservoir).tasks.tolist() == [[0, 0, 0, 1, 1]] * 2


def test_images_labels_and_tasks_stay_together() -> None:
    reservoir = Reservoir(4, [0, 1])
    for task in range(5):
        reservoir.write(numbered(10 * task, 10, task=task))
    found = kept(reservoir)
    assert torch.equal(found.x.squeeze(-1), found.y.double())
    assert torch.equal(found.tasks, found.y // 10)
    assert len(set(found.y[0].tolist())) == 4
    assert not torch.equal(found.y[0], found.y[1])


def test_it_is_the_usual_algorithm() -> None:
    """One image after another: the n-th goes to a random place among n, if the memory has that place."""
    reservoir, twin = Reservoir(4, [3]), Reservoir(4, [3])
    expected: list[int] = []
    for start in range(0, 40, 5):
        reservoir.write(numbered(start, 5, replicas=1))
        order = np.arange(start, start + 5)
        places = twin.slots[0].integers(0, order + 1)
        for number, place in zip(order.tolist(), places.tolist(), strict=True):
            if number < 4:
                expected.append(number)
            elif place < 4:
                expected[place] = number
    assert kept(reservoir).y[0].tolist() == expected


def test_every_image_is_as_likely_as_any_other() -> None:
    seeds = list(range(2000))
    reservoir = Reservoir(5, seeds)
    for start in range(0, 20, 4):
        reservoir.write(numbered(start, 4, replicas=len(seeds)))
    counts = torch.bincount(kept(reservoir).y.flatten(), minlength=20)
    assert counts.sum() == 5 * len(seeds)
    assert (counts - 500).abs().max() < 100  # five standard deviations of a binomial count


def test_draws_are_different_images_where_there_are_enough() -> None:
    reservoir = Reservoir(8, [0, 1])
    assert reservoir.draw(3) is None
    reservoir.write(numbered(0, 2))
    few = reservoir.draw(3)
    assert few is not None
    assert few.y.shape == (2, 3)
    reservoir.write(numbered(2, 6))
    place = few.x.data_ptr()
    seen = set()
    for _ in range(30):
        drawn = reservoir.draw(3)
        assert drawn is not None
        assert drawn.x.data_ptr() == place
        assert all(len(set(row)) == 3 for row in drawn.y.tolist())
        assert torch.equal(drawn.x.squeeze(-1), drawn.y.double())
        seen |= set(drawn.y[0].tolist())
    assert seen == set(range(8))


def test_a_replica_does_not_depend_on_its_neighbours() -> None:
    def run(seeds: list[int]) -> list[list[int]]:
        reservoir, found = Reservoir(4, seeds), []
        for start in range(0, 30, 3):
            reservoir.write(numbered(start, 3, replicas=len(seeds)))
            drawn = reservoir.draw(2)
            assert drawn is not None
            found.append(drawn.y[-1].tolist())
        return found

    assert run([5, 7]) == run([7])


def test_further_fields_stay_with_their_image_and_may_change_in_its_slot() -> None:
    reservoir = Reservoir(4, [0, 1])
    for start in range(0, 20, 5):
        batch = numbered(start, 5)
        slots = reservoir.write(batch, {"logits": torch.stack([batch.x, 10 * batch.x], -1).squeeze(2)})
    assert slots.shape == (2, 5)
    assert slots.max() <= 4  # the last is the slot of what is not kept
    for _ in range(5):
        drawn = reservoir.draw(3)
        assert drawn is not None
        assert torch.equal(drawn.fields["logits"], torch.stack([drawn.x, 10 * drawn.x], -1).squeeze(2))
    reservoir.update(slots, {"logits": torch.full((2, 5, 2), -1.0, dtype=torch.float64)})
    last = reservoir.filled["y"] >= 15
    changed = (reservoir.filled["logits"] == -1).all(-1)
    assert torch.equal(last, changed)


def test_fields_are_checkpointed() -> None:
    old, new = Reservoir(4, [0, 1]), Reservoir(4, [0, 1])
    old.write(numbered(0, 3), {"logits": torch.rand(2, 3, 2)})
    tensors: dict[str, Tensor] = {}
    restore(new, json.loads(json.dumps(pack(old, tensors))), tensors, CPU)
    for own in (old, new):
        own.write(numbered(3, 5), {"logits": torch.ones(2, 5, 2)})
    ours, theirs = old.draw(3), new.draw(3)
    assert ours is not None
    assert theirs is not None
    assert torch.equal(ours.y, theirs.y)
    assert torch.equal(ours.fields["logits"], theirs.fields["logits"])
