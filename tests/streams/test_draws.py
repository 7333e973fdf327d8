import json
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from gradcast.core import Unlabelled
from gradcast.data.stored_images import StoredImages
from gradcast.devices import Place
from gradcast.randomness import numpy_generator
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.signals.policy import Policy
from gradcast.streams.augment import Augmentation
from gradcast.streams.draws import Draws, Feed, Views
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from tests.helpers import CPU


def pool(count: int = 10, steps: tuple[Augmentation, ...] = ()) -> Pool:
    """Images that show their own number."""
    x = np.arange(count, dtype=np.uint8).reshape(count, 1, 1, 1)
    return Pool(StoredImages.of(x), Scale(), steps, place=Place(CPU, torch.float64))


def draws(
    pool: Pool, policy: Policy, seeds: Sequence[int], views: Views | None = None, *, by_epoch: bool = False
) -> Draws:
    """One feed."""
    return Draws([Feed(pool, seeds, policy.batch, views)], policy, seeds, by_epoch=by_epoch)


def alone(drawn: tuple[Unlabelled, ...]) -> Unlabelled | None:
    """The only feed's batch, where there is one."""
    return drawn[0] if drawn else None


def numbers(x: torch.Tensor) -> list[int]:
    return [round(255 * value) for value in x.flatten().tolist()]


def test_draws_follow_a_scripted_coin() -> None:
    policy = Policy(p=0.3, start=5, batch=2)
    own = draws(pool(), policy, seeds=[7])
    coin = numpy_generator(7, "policy")
    expected = [step >= 5 and coin.random() < 0.3 for step in range(200)]
    found = [alone(own.next(0)) is not None for _ in range(200)]
    assert found == expected
    assert 30 < sum(found) < 90


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_never_and_always(p: float) -> None:
    own = draws(pool(), Policy(p=p, batch=3), seeds=[0, 1])
    assert all((alone(own.next(0)) is not None) == bool(p) for _ in range(50))


def test_every_image_once_a_pass_across_its_border() -> None:
    own = draws(pool(10), Policy(p=1.0, batch=4), seeds=[0])
    seen: list[int] = []
    for _ in range(10):
        unlabelled = alone(own.next(0))
        assert unlabelled is not None
        assert unlabelled.x.shape == (1, 4, 1, 1, 1)
        seen += numbers(unlabelled.x)
    passes = [sorted(seen[start : start + 10]) for start in range(0, 40, 10)]
    assert passes == [list(range(10))] * 4
    assert seen[:10] != seen[10:20]


def test_a_pool_smaller_than_a_batch_is_cycled() -> None:
    unlabelled = alone(draws(pool(3), Policy(p=1.0, batch=7), seeds=[0]).next(0))
    assert unlabelled is not None
    drawn = numbers(unlabelled.x)
    assert sorted(drawn.count(image) for image in range(3)) == [2, 2, 3]


def test_replicas_draw_what_they_would_alone() -> None:
    policy = Policy(p=0.5, batch=2)
    together = draws(pool(), policy, seeds=[3, 4])
    singles = [draws(pool(), policy, seeds=[3]), draws(pool(), policy, seeds=[4])]
    for _ in range(60):
        both = alone(together.next(0))
        for replica, own in enumerate(singles):
            found = alone(own.next(0))
            used = both is not None and bool(both.used[replica])
            assert used == (found is not None)
            if found is not None and both is not None:
                assert torch.equal(both.x[replica], found.x[0])


def test_random_transforms_do_not_depend_on_grouping() -> None:
    shade = Augmentation("shade", lambda x, u: x + u[:, 0].view(-1, 1, 1, 1), 1)
    policy = Policy(p=0.5, batch=2)
    together, single = draws(pool(steps=(shade,)), policy, seeds=[3, 4]), draws(pool(steps=(shade,)), policy, seeds=[4])
    for _ in range(40):
        both, own = alone(together.next(0)), alone(single.next(0))
        if own is not None and both is not None:
            assert torch.equal(both.x[1], own.x[0])


def test_views_show_the_same_images_another_way() -> None:
    shade = Augmentation("shade", lambda x, u: x + (u[:, 0] / 1000).view(-1, 1, 1, 1), 1)
    own = draws(pool(), Policy(p=0.5, batch=3), seeds=[3, 4], views=Views(2, (shade,)))
    plain = draws(pool(), Policy(p=0.5, batch=3), seeds=[3, 4])
    for _ in range(20):
        found, expected = alone(own.next(0)), alone(plain.next(0))
        assert (found is None) == (expected is None)
        if found is None or expected is None:
            continue
        assert (found.views, found.images, found.x.shape[:2]) == (2, 3, (2, 6))
        assert list(found.drawn_by()) == found.used.nonzero().flatten().tolist()
        for replica in found.drawn_by():
            first, second = found.x[replica].chunk(2)
            assert numbers(first) == numbers(second) == numbers(expected.x[replica])
            assert not torch.equal(first, second)


def test_every_view_may_have_augmentations_of_its_own() -> None:
    shade, dark = (Augmentation(name, lambda x, u, by=by: x * by, 0) for name, by in (("shade", 0.5), ("dark", 0.0)))
    found = alone(draws(pool(), Policy(p=1.0, batch=3), [3], Views.different((), (shade,), (shade, dark))).next(0))
    assert found is not None
    plain, shaded, black = found.x[0].chunk(3)
    assert (found.views, found.images) == (3, 3)
    torch.testing.assert_close(shaded, 0.5 * plain)
    assert plain.any()
    assert not black.any()
    assert Views(2, (shade,)).lists == ((shade,), (shade,))


def test_who_draws_is_known_without_being_told() -> None:
    assert list(Unlabelled(torch.zeros(3, 2, 1), torch.tensor([True, False, True])).drawn_by()) == [0, 2]


BOTH = torch.tensor([True, True])


def by_epoch(**policy: object) -> Draws:
    return draws(pool(20), Policy(**{"p": 1.0, "batch": 3, **policy}), [1, 2], by_epoch=True)  # type: ignore[arg-type]


def test_by_epoch_the_start_counts_batches_of_an_epoch_and_what_comes_before_is_drawn_all_the_same() -> None:
    late, early = by_epoch(start=2), by_epoch()
    found = [alone(late.next(0, place, BOTH)) for place in (0, 1, 2, 0, 3)]
    expected = [alone(early.next(0, place, BOTH)) for place in (0, 1, 2, 0, 3)]
    assert [each is None for each in found] == [True, True, False, True, False]
    for place in (2, 4):
        ours, theirs = found[place], expected[place]
        assert ours is not None
        assert theirs is not None
        assert torch.equal(ours.x, theirs.x)


def test_otherwise_it_counts_steps_of_the_run_and_nothing_is_drawn_before() -> None:
    late, early = (draws(pool(), Policy(p=1.0, batch=3, start=start), [1]) for start in (2, 0))
    found = [alone(late.next(0, 0)) for _ in range(4)]
    assert [each is None for each in found] == [True, True, False, False]
    first = alone(early.next(0, 0))
    assert found[2] is not None
    assert first is not None
    assert torch.equal(found[2].x, first.x)


def test_replicas_that_are_not_going_have_none() -> None:
    made = by_epoch()
    found = alone(made.next(0, 0, torch.tensor([False, True])))
    assert found is not None
    assert (found.used.tolist(), found.drawn_by()) == ([False, True], (1,))
    assert made.next(0, 0, torch.tensor([False, False])) == ()


def test_by_epoch_every_task_has_coins_and_shuffles_of_its_own_whatever_was_drawn_before() -> None:
    one, two = by_epoch(p=0.5), by_epoch(p=0.5)
    for _ in range(5):
        one.next(0, 0, BOTH)
    one.begin(1)
    two.begin(1)
    fresh = by_epoch(p=0.5)
    fresh.begin(0)
    drawn = [[alone(own.next(1, 0, BOTH)) for _ in range(10)] for own in (one, two, fresh)]
    told = [[None if found is None else numbers(found.x) for found in each] for each in drawn]
    assert told[0] == told[1]
    assert told[0] != told[2]


def test_without_that_a_walk_goes_on_over_tasks() -> None:
    own, same = (draws(pool(), Policy(p=1.0, batch=3), [1]) for _ in range(2))
    found, expected = [], []
    for step in range(6):
        if step % 2 == 0:
            own.begin(step // 2)
        ours, theirs = alone(own.next(step // 2)), alone(same.next(0))
        assert ours is not None
        assert theirs is not None
        found.append(numbers(ours.x))
        expected.append(numbers(theirs.x))
    assert found == expected


def test_feeds_of_a_row_obey_one_coin_and_have_walks_of_their_own() -> None:
    policy, seeds = Policy(p=0.5, batch=3), [3, 4]
    feeds = [Feed(pool(), seeds, 3), Feed(pool(), seeds, 3, Views(2), number=1)]
    own, single = Draws(feeds, policy, seeds), draws(pool(), policy, seeds)
    differ = 0
    for _ in range(20):
        found, expected = own.next(0), alone(single.next(0))
        assert (found == ()) == (expected is None)
        if expected is None:
            continue
        first, second = found
        assert torch.equal(first.x, expected.x)
        assert torch.equal(first.used, second.used)
        assert (first.x.shape[1], second.x.shape[1], second.images) == (3, 6, 3)
        differ += any(numbers(first.x[r]) != numbers(second.x[r])[:3] for r in first.drawn_by())
    assert differ > 5


@pytest.mark.parametrize("by_task", [False, True])
def test_it_goes_on_where_it_was(by_task: bool) -> None:
    shade = Augmentation("shade", lambda x, u: x + u[:, 0].view(-1, 1, 1, 1), 1)
    first, again = (
        draws(pool(steps=(shade,)), Policy(p=0.5, batch=3), [3, 4], Views(2, (shade,)), by_epoch=by_task)
        for _ in range(2)
    )
    first.begin(0)
    for _ in range(7):
        first.next(0)
    tensors: dict[str, Tensor] = {}
    restore(again, json.loads(json.dumps(pack(first, tensors))), tensors, CPU)
    for _ in range(8):
        ours, theirs = alone(first.next(0)), alone(again.next(0))
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert torch.equal(ours.x, theirs.x)
