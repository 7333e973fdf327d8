import numpy as np
import pytest
import torch
from gradcast.streams.held_out import HeldOut

from gradcast.data.digits import digits
from gradcast.errors import GradcastError
from gradcast.signals.policy import Draws, Policy
from gradcast.streams.augment import AUGMENTATIONS
from gradcast.streams.scenarios import permuted, split
from gradcast.streams.stream import Stream
from tests.helpers import CPU

SEEDS = [3, 8]


def stream(samples: int | None = 1290, ratio: float = 1.0) -> Stream:
    """Digits have 1,297 training images."""
    tasks, width, facts = permuted(digits(0), 2, 0)
    return Stream(tasks, (1, 8, 8), width, facts, "digest", samples=samples, ratio=ratio)


def pool(built: Stream) -> HeldOut:
    return HeldOut(built, built.scale, device=CPU, dtype=torch.float64)


def keys(x: torch.Tensor) -> list[bytes]:
    return [image.numpy().tobytes() for image in x]


@pytest.mark.parametrize("task", [0, 1])
def test_stream_and_pool_share_no_image_and_leave_none_out(task: int) -> None:
    built = stream()
    own = pool(built)
    assert (len(own), own.content) == (7, "digest")
    shown, places = own.of(task, SEEDS, np.tile(np.arange(7), (2, 1)))
    left = shown.images(places)
    seen = [b.x for b in built.batches(task, SEEDS, batch=43, epochs=1, device=CPU, dtype=torch.float64)]
    for replica in range(2):
        both = keys(left[replica]) + keys(torch.cat(seen, dim=1)[replica])
        assert sorted(both) == sorted(keys(shown.images(np.arange(1297)[None])[0]))
    assert keys(left[0]) != keys(left[1])


def test_labels_belong_to_their_images() -> None:
    own = pool(stream(samples=1000))
    shown, places = own.of(1, SEEDS, np.array([[0, 5], [9, 9]]))
    truth = shown.truth(places)
    assert truth is not None
    known = {x.tobytes(): int(y) for x, y in zip(shown.x.numpy(), own.stream.tasks[1].train.y, strict=True)}
    found = (255 * shown.images(places)).round().byte()
    assert [[known[image.numpy().tobytes()] for image in row] for row in found] == truth.tolist()


def test_draws_follow_the_task_and_tell_the_truth() -> None:
    own = pool(stream())
    draws = Draws(own, Policy(p=0.5, batch=3), SEEDS)
    same = Draws(own, Policy(p=0.5, batch=3), SEEDS[1:])
    drawn = 0
    for step in range(40):
        task = step // 20
        both, alone = draws.next(task), same.next(task)
        if alone is None:
            assert both is None or both.drawn_by() == (0,)
            continue
        assert both is not None
        assert both.truth is not None
        assert alone.truth is not None
        assert torch.equal(both.x[1], alone.x[0])
        assert torch.equal(both.truth[1], alone.truth[0])
        shown, _ = own.of(task, [3], np.array([[0]]))
        assert set(keys(alone.x[0])) <= set(keys(shown.images(np.arange(1297)[None])[0]))
        drawn += 1
    assert drawn > 10


def test_augmentations_apply() -> None:
    built = stream()
    own = HeldOut(built, built.scale, (AUGMENTATIONS["flip"],), device=CPU, dtype=torch.float64)
    assert own.of(0, [3], np.array([[0]]))[0].steps == (AUGMENTATIONS["flip"],)


def test_tasks_of_unequal_size_share_the_smallest_number() -> None:
    tasks, width, facts = split(digits(0), 2, 0, classes_per_task=None, class_order="natural")
    built = Stream(tasks, (1, 8, 8), width, facts, samples=600)
    assert len(pool(built)) == min(len(task.train) for task in tasks) - 600


@pytest.mark.parametrize(("samples", "ratio"), [(None, 1.0), (1297, 1.0), (None, 0.9999)])
def test_nothing_left_is_said(samples: int | None, ratio: float) -> None:
    with pytest.raises(GradcastError, match=r"'held-out' has no image of task 0: .* lower stream\.samples or stream"):
        pool(stream(samples, ratio))
