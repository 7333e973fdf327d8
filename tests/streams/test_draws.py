import numpy as np
import pytest
import torch

from gradcast.core import Unlabelled
from gradcast.randomness import numpy_generator
from gradcast.signals.policy import Draws, Policy, Views
from gradcast.streams.augment import Augmentation
from gradcast.streams.pool import Pool
from gradcast.streams.scale import Scale
from tests.helpers import CPU


def pool(count: int = 10, steps: tuple[Augmentation, ...] = ()) -> Pool:
    """Images that show their own number."""
    x = np.arange(count, dtype=np.uint8).reshape(count, 1, 1, 1)
    return Pool(x, Scale(), steps, device=CPU, dtype=torch.float64)


def numbers(x: torch.Tensor) -> list[int]:
    return [round(255 * value) for value in x.flatten().tolist()]


def test_draws_follow_a_scripted_coin() -> None:
    policy = Policy(p=0.3, start=5, batch=2)
    draws = Draws(pool(), policy, seeds=[7])
    coin = numpy_generator(7, "policy")
    expected = [step >= 5 and coin.random() < 0.3 for step in range(200)]
    found = [draws.next() is not None for _ in range(200)]
    assert found == expected
    assert 30 < sum(found) < 90


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_never_and_always(p: float) -> None:
    draws = Draws(pool(), Policy(p=p, batch=3), seeds=[0, 1])
    assert all((draws.next() is not None) == bool(p) for _ in range(50))


def test_every_image_once_a_pass_across_its_border() -> None:
    draws = Draws(pool(10), Policy(p=1.0, batch=4), seeds=[0])
    seen: list[int] = []
    for _ in range(10):
        unlabelled = draws.next()
        assert unlabelled is not None
        assert unlabelled.x.shape == (1, 4, 1, 1, 1)
        seen += numbers(unlabelled.x)
    passes = [sorted(seen[start : start + 10]) for start in range(0, 40, 10)]
    assert passes == [list(range(10))] * 4
    assert seen[:10] != seen[10:20]


def test_a_pool_smaller_than_a_batch_is_cycled() -> None:
    unlabelled = Draws(pool(3), Policy(p=1.0, batch=7), seeds=[0]).next()
    assert unlabelled is not None
    drawn = numbers(unlabelled.x)
    assert sorted(drawn.count(image) for image in range(3)) == [2, 2, 3]


def test_replicas_draw_what_they_would_alone() -> None:
    policy = Policy(p=0.5, batch=2)
    together = Draws(pool(), policy, seeds=[3, 4])
    alone = [Draws(pool(), policy, seeds=[3]), Draws(pool(), policy, seeds=[4])]
    for _ in range(60):
        both = together.next()
        for replica, draws in enumerate(alone):
            own = draws.next()
            used = both is not None and bool(both.used[replica])
            assert used == (own is not None)
            if own is not None and both is not None:
                assert torch.equal(both.x[replica], own.x[0])


def test_random_transforms_do_not_depend_on_grouping() -> None:
    shade = Augmentation("shade", lambda x, u: x + u[:, 0].view(-1, 1, 1, 1), 1)
    policy = Policy(p=0.5, batch=2)
    together, alone = Draws(pool(steps=(shade,)), policy, seeds=[3, 4]), Draws(pool(steps=(shade,)), policy, seeds=[4])
    for _ in range(40):
        both, own = together.next(), alone.next()
        if own is not None and both is not None:
            assert torch.equal(both.x[1], own.x[0])


def test_views_show_the_same_images_another_way() -> None:
    shade = Augmentation("shade", lambda x, u: x + (u[:, 0] / 1000).view(-1, 1, 1, 1), 1)
    draws = Draws(pool(), Policy(p=0.5, batch=3), seeds=[3, 4], views=Views(2, (shade,)))
    plain = Draws(pool(), Policy(p=0.5, batch=3), seeds=[3, 4])
    for _ in range(20):
        found, expected = draws.next(), plain.next()
        assert (found is None) == (expected is None)
        if found is None or expected is None:
            continue
        assert (found.views, found.images, found.x.shape[:2]) == (2, 3, (2, 6))
        assert list(found.drawn_by()) == found.used.nonzero().flatten().tolist()
        for replica in found.drawn_by():
            first, second = found.x[replica].chunk(2)
            assert numbers(first) == numbers(second) == numbers(expected.x[replica])
            assert not torch.equal(first, second)


def test_who_draws_is_known_without_being_told() -> None:
    assert list(Unlabelled(torch.zeros(3, 2, 1), torch.tensor([True, False, True])).drawn_by()) == [0, 2]


def test_parts_of_a_run_draw_independently() -> None:
    drawn = [
        [None if found is None else numbers(found.x) for found in (draws.next() for _ in range(10))]
        for part in ("", "task 1", "task 1", "task 2")
        for draws in [Draws(pool(), Policy(p=0.5, batch=3), seeds=[0], part=part)]
    ]
    assert drawn[1] == drawn[2]
    assert drawn[0] != drawn[1] != drawn[3] != drawn[0]
