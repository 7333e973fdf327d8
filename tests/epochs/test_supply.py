import numpy as np
import torch
from gradcast.epochs.supply import Supply

from gradcast.signals.policy import Policy
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from tests.helpers import CPU

BOTH = torch.tensor([True, True])


def supply(seeds: list[int], **policy: object) -> Supply:
    x = np.arange(20, dtype=np.uint8).reshape(20, 1, 1, 1)
    pool = Pool(x, Scale(), device=CPU, dtype=torch.float64)
    return Supply(pool, Policy(**{"p": 1.0, "batch": 3, **policy}), seeds)  # type: ignore[arg-type]


def test_start_counts_batches_of_an_epoch_and_what_comes_before_is_drawn_all_the_same() -> None:
    late, early = supply([1, 2], start=2), supply([1, 2])
    found = [late.next(batch, BOTH) for batch in (0, 1, 2, 0, 3)]
    expected = [early.next(batch, BOTH) for batch in (0, 1, 2, 0, 3)]
    assert [each is None for each in found] == [True, True, False, True, False]
    for place in (2, 4):
        ours, theirs = found[place], expected[place]
        assert ours is not None
        assert theirs is not None
        assert torch.equal(ours.x, theirs.x)


def test_replicas_that_are_not_going_have_none() -> None:
    made = supply([1, 2])
    found = made.next(0, torch.tensor([False, True]))
    assert found is not None
    assert (found.used.tolist(), found.drawn_by()) == ([False, True], (1,))
    assert made.next(0, torch.tensor([False, False])) is None


def test_every_task_has_coins_and_shuffles_of_its_own_whatever_was_drawn_before() -> None:
    one, two = supply([1, 2]), supply([1, 2])
    for _ in range(5):
        one.next(0, BOTH)
    one.begin(1)
    two.begin(1)
    ours, theirs, first = one.next(0, BOTH), two.next(0, BOTH), supply([1, 2]).next(0, BOTH)
    assert ours is not None
    assert theirs is not None
    assert first is not None
    assert torch.equal(ours.x, theirs.x)
    assert not torch.equal(ours.x, first.x)
