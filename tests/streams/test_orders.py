"""Passes, epochs and walks: what comes, what comes again, and that an order goes on where it was."""

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from gradcast.core import Batch
from gradcast.data.digits import digits
from gradcast.devices import Place
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.streams.named_augmentations import named
from gradcast.streams.orders import Epochs, Order, Passes, Walks
from gradcast.streams.scale import Scale
from gradcast.streams.scenarios import rotated
from gradcast.streams.stream import Stream, Subset, Task
from gradcast.streams.task_data import TaskData
from tests.helpers import CPU

ORDERS: dict[str, Callable[[TaskData, int], Order]] = {"passes": Passes, "epochs": Epochs, "walks": Walks}
PLACE = Place(CPU, torch.float64)


def data(seeds: tuple[int, ...] = (3, 8), samples: int = 25, augment: bool = False) -> TaskData:
    tasks, facts = rotated(digits(0), 2, 0)
    steps = named(["crop", "flip"]) if augment else ()
    return TaskData(Stream(tasks, (1, 8, 8), facts, samples=samples, steps=steps), seeds, PLACE)


def taken(order: Order, numbers: range, task: int = 0) -> list[Batch]:
    order.begin(task)
    return [order.batch(number) for number in numbers]


def keys(batches: list[Batch], replica: int = 0) -> list[bytes]:
    return [image.numpy().tobytes() for batch in batches for image in batch.x[replica]]


@pytest.mark.parametrize("name", ["passes", "epochs"])
def test_every_round_has_every_image_once_and_only_the_first_brings_new_ones(name: str) -> None:
    found = taken(ORDERS[name](data(), 10), range(9))
    assert [batch.y.shape[1] for batch in found] == [10, 10, 5] * 3
    rounds = [keys(found[start : start + 3]) for start in (0, 3, 6)]
    assert all(sorted(each) == sorted(rounds[0]) and len(set(each)) == 25 for each in rounds)
    assert rounds[0] != rounds[1] != rounds[2] != rounds[0]
    assert [batch.repeated for batch in found] == [0, 0, 0, 10, 10, 5, 10, 10, 5]
    assert [None if b.fresh is None else b.fresh.y.shape[1] for b in found] == [10, 10, 5, *[None] * 6]


def test_walks_have_no_end_and_full_batches_and_the_last_of_the_first_round_is_new_in_part() -> None:
    found = taken(Walks(data(), 10), range(5))
    assert [batch.y.shape[1] for batch in found] == [10] * 5
    assert [batch.repeated for batch in found] == [0, 0, 5, 10, 10]
    fresh = [batch.fresh for batch in found]
    seen = [each for each in fresh if each is not None]
    assert len(set(keys(seen))) == len(keys(seen)) == 25
    assert fresh[2] is not None
    assert torch.equal(fresh[2].x, found[2].x[:, :5])
    rounds = keys(found)
    assert sorted(rounds[:25]) == sorted(rounds[25:])


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("cut", [2, 3, 4])
def test_an_order_goes_on_where_it_was_in_the_middle_of_a_round_or_between_two(name: str, cut: int) -> None:
    first, again = (ORDERS[name](data(augment=True), 10) for _ in range(2))
    taken(first, range(4))  # another task before: it leaves nothing behind
    taken(first, range(cut), task=1)
    tensors: dict[str, Tensor] = {}
    restore(again, json.loads(json.dumps(pack(first, tensors))), tensors, CPU)
    for number in range(cut, 7):
        ours, theirs = first.batch(number), again.batch(number)
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.y, theirs.y)
        assert (ours.task, ours.repeated) == (theirs.task, theirs.repeated) == (1, theirs.repeated)


@pytest.mark.parametrize("name", ORDERS)
def test_replicas_do_not_feel_each_other_and_tasks_do_not_feel_earlier_ones(name: str) -> None:
    both, alone = ORDERS[name](data(augment=True), 10), ORDERS[name](data((8,), augment=True), 10)
    taken(both, range(4))
    for ours, own in zip(taken(both, range(5), task=1), taken(alone, range(5), task=1), strict=True):
        assert torch.equal(ours.x[1], own.x[0])
        assert torch.equal(ours.y[1], own.y[0])


PLACES = np.arange(12, dtype=np.uint8)


def numbered(seeds: tuple[int, ...] = (1, 2), labels: int | None = 6) -> TaskData:
    """Twelve images that show nothing but their own number, of three classes."""
    x = np.ascontiguousarray(np.broadcast_to(PLACES[:, None, None, None], (12, 1, 4, 4)))
    subset = Subset(x, np.arange(12), PLACES.astype(np.int64) % 3)
    return TaskData(Stream([Task(subset, subset, (0, 1, 2))], (1, 4, 4), {}, labels=labels), seeds, PLACE)


def seen(x: Tensor) -> list[list[int]]:
    """Which images these are."""
    return (255 * x[..., 0, 0, 0]).round().long().tolist()


@pytest.mark.parametrize("name", ORDERS)
def test_only_labelled_images_come_each_with_its_label(name: str) -> None:
    own = numbered()
    found = taken(ORDERS[name](own, 3), range(4))
    for replica, seed in enumerate((1, 2)):
        shown = [image for batch in found for image in seen(batch.x)[replica]]
        labelled = own.stream.labelled(0, seed).tolist()
        assert [sorted(shown[:6]), sorted(shown[6:])] == [labelled] * 2
    for batch in found:
        assert batch.y.tolist() == [[place % 3 for place in row] for row in seen(batch.x)]


def test_crops_shift_by_up_to_four_pixels_into_black_before_images_are_normalised() -> None:
    """White images: what is black was shifted in, and says by how much."""
    subset = Subset(np.full((12, 1, 6, 6), 255, dtype=np.uint8), np.arange(12), np.arange(12) % 3)
    scale = Scale((0.5,), (0.25,))
    stream = Stream([Task(subset, subset, (0, 1, 2))], (1, 6, 6), {}, scale=scale, steps=named(["crop"]))
    x = Walks(TaskData(stream, [3], PLACE), 400).batch(0).x[0, :, 0]
    white, black = (1 - 0.5) / 0.25, (0 - 0.5) / 0.25
    assert set(x.unique().tolist()) == {white, black}
    rows, columns = ((x == white).any(axis) for axis in (2, 1))
    for kept in (rows, columns):
        assert kept.sum(1).unique().tolist() == [2, 3, 4, 5, 6]  # shifts by 4, 3, 2, 1 and 0 pixels
        assert {tuple(each) for each in kept.tolist()} == {
            tuple(0 <= place + shift < 6 for place in range(6)) for shift in range(-4, 5)
        }
