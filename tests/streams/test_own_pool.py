import numpy as np
import pytest
import torch
from torch import Tensor

from gradcast.core import Unlabelled
from gradcast.data.digits import digits
from gradcast.data.own_tasks import own_tasks
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.signals.policy import Policy
from gradcast.streams.augment import AUGMENTATIONS
from gradcast.streams.draws import Draws, Feed, Views
from gradcast.streams.named_augmentations import named
from gradcast.streams.own_pool import OwnImages, OwnPoolName
from gradcast.streams.scenarios import own as own_scenario
from gradcast.streams.scenarios import permuted, split
from gradcast.streams.stream import Stream, Subset, Task
from gradcast.streams.task_data import TaskData
from tests.helpers import CPU

SEEDS = [3, 8]
PLACE = Place(CPU, torch.float64)


def stream(samples: int | None = 1290, ratio: float = 1.0, labels: int | None = None) -> Stream:
    """Digits have 1,297 training images."""
    tasks, facts = permuted(digits(0), 2, 0)
    return Stream(tasks, (1, 8, 8), facts, "digest", samples=samples, ratio=ratio, labels=labels)


def pool(built: Stream, which: OwnPoolName = "held-out") -> OwnImages:
    return OwnImages(which, built, built.scale, (), PLACE)


def draws(own: OwnImages, seeds: list[int], **policy: object) -> Draws:
    given = Policy(**{"p": 1.0, "batch": 3, **policy})  # type: ignore[arg-type]
    return Draws([Feed(own, seeds, given.batch)], given, seeds)


def keys(x: Tensor) -> list[bytes]:
    return [image.numpy().tobytes() for image in x]


def everything(built: Stream, task: int) -> Tensor:
    """All training images of a task as the model sees them."""
    task_images = built.tasks[task].train.images(built.tasks[task].origin)
    return built.scale(torch.from_numpy(np.ascontiguousarray(task_images.x)), torch.float64)


@pytest.mark.parametrize("task", [0, 1])
@pytest.mark.parametrize("which", ["held-out", "unlabelled"])
def test_stream_and_pool_share_no_image_and_leave_none_out(task: int, which: OwnPoolName) -> None:
    built = stream() if which == "held-out" else stream(None, labels=1200)
    own, left = pool(built, which), 7 if which == "held-out" else 97
    assert (len(own), own.size(task), own.content) == (left, left, "digest")
    shown, truth = own.images(task, SEEDS, np.tile(np.arange(left), (2, 1)))
    seen = TaskData(built, SEEDS, PLACE)
    labelled = next(seen.batches(seen.train(task), 1297)).x
    for replica in range(2):
        both = keys(shown[replica]) + keys(labelled[replica])
        assert sorted(both) == sorted(keys(everything(built, task)))
    assert keys(shown[0]) != keys(shown[1])
    assert truth is not None


@pytest.mark.parametrize("which", ["held-out", "unlabelled"])
def test_labels_belong_to_their_images(which: OwnPoolName) -> None:
    built = stream(samples=1000, labels=100)
    shown, truth = pool(built, which).images(1, SEEDS, np.array([[0, 5], [9, 9]]))
    known = dict(zip(keys(everything(built, 1)), built.tasks[1].train.y.tolist(), strict=True))
    assert truth is not None
    assert [[known[key] for key in keys(row)] for row in shown] == truth.tolist()


def test_draws_follow_the_task_and_tell_the_truth() -> None:
    own = pool(stream())
    both_seeds, same = draws(own, SEEDS, p=0.5), draws(own, SEEDS[1:], p=0.5)
    drawn = 0
    for step in range(40):
        task = step // 20
        both, alone = both_seeds.next(task), same.next(task)
        if not alone:
            assert not both or both[0].drawn_by() == (0,)
            continue
        assert both[0].truth is not None
        assert alone[0].truth is not None
        assert torch.equal(both[0].x[1], alone[0].x[0])
        assert torch.equal(both[0].truth[1], alone[0].truth[0])
        assert set(keys(alone[0].x[0])) <= set(keys(everything(own.stream, task)))
        drawn += 1
    assert drawn > 10


def test_augmentations_apply() -> None:
    built = stream()
    flipped = OwnImages("held-out", built, built.scale, (AUGMENTATIONS["flip"],), PLACE)
    index, plain = np.array([list(range(7))]), pool(built)
    x, _ = flipped.images(0, [3], index, [torch.Generator().manual_seed(0)])
    expected, _ = plain.images(0, [3], index)
    turned = [bool(torch.equal(a, b.flip(-1))) for a, b in zip(x[0], expected[0], strict=True)]
    same = [bool(torch.equal(a, b)) for a, b in zip(x[0], expected[0], strict=True)]
    assert all(a or b for a, b in zip(turned, same, strict=True))
    assert any(turned)
    assert any(same)


def test_held_out_images_of_tasks_of_unequal_size_share_the_smallest_number() -> None:
    tasks, facts = split(digits(0), 2, 0, classes_per_task=None, class_order="natural")
    built = Stream(tasks, (1, 8, 8), facts, samples=600)
    own = pool(built)
    assert len(own) == own.size(0) == own.size(1) == min(len(task.train) for task in tasks) - 600


def test_images_without_a_label_are_all_walked_through_task_by_task() -> None:
    tasks, facts = split(digits(0), 2, 0, classes_per_task=None, class_order="natural")
    built = Stream(tasks, (1, 8, 8), facts, labels=600)
    own = pool(built, "unlabelled")
    left = [len(task.train) - 600 for task in tasks]
    assert [own.size(task) for task in range(2)] == left
    assert left[0] != left[1]
    drawn = draws(own, SEEDS, batch=1)
    for task in range(2):
        drawn.begin(task)
        found = [drawn.next(task)[0].x for _ in range(left[task])]
        for replica, seed in enumerate(SEEDS):
            expected = everything(built, task)[torch.from_numpy(built.unlabelled(task, seed))]
            assert sorted(keys(torch.cat(found, 1)[replica])) == sorted(keys(expected))


def test_every_task_has_a_walk_of_its_own_whatever_was_drawn_before() -> None:
    own = pool(stream(None, labels=1200), "unlabelled")
    one, two = draws(own, SEEDS), draws(own, SEEDS)
    for _ in range(5):
        one.next(0)
    for each in (one, two):
        each.begin(1)
    assert torch.equal(one.next(1)[0].x, two.next(1)[0].x)


@pytest.mark.parametrize(("samples", "ratio"), [(None, 1.0), (1297, 1.0), (None, 0.9999)])
def test_nothing_left_is_said(samples: int | None, ratio: float) -> None:
    with pytest.raises(GradcastError, match=r"'held-out' has no image of task 0: .* lower stream\.samples or stream"):
        pool(stream(samples, ratio))
    with pytest.raises(GradcastError, match=r"'unlabelled' has no image of task 0: all have a label; lower stream\.la"):
        pool(stream(samples, ratio), "unlabelled")


PLACES = np.arange(12, dtype=np.uint8)


def numbered(seeds: tuple[int, ...] = (1, 2), *, views: int = 1, batch: int = 2, augment: bool = False) -> Draws:
    """Twelve images that show nothing but their own number; six of them have a label."""
    x = np.ascontiguousarray(np.broadcast_to(PLACES[:, None, None, None], (12, 1, 6, 6)))
    subset = Subset(x, np.arange(12), PLACES.astype(np.int64) % 3)
    built = Stream([Task(subset, subset, (0, 1, 2))], (1, 6, 6), {}, labels=6)
    own = OwnImages("unlabelled", built, built.scale, named(["crop"]) if augment else (), PLACE)
    return Draws([Feed(own, seeds, batch, Views(views))], Policy(p=1.0, batch=batch), seeds)


def seen(x: Tensor) -> list[list[int]]:
    """Which images these are."""
    return (255 * x[..., 0, 3, 3]).round().long().tolist()


def test_walks_are_endless_round_by_round() -> None:
    own = numbered()
    feed = own.feeds[0].pool
    assert isinstance(feed, OwnImages)
    found = np.concatenate([seen(own.next(0)[0].x) for _ in range(12)], axis=1)
    for replica, seed in enumerate((1, 2)):
        rest = feed.stream.unlabelled(0, seed)
        assert all(np.array_equal(np.sort(turn), rest) for turn in found[replica].reshape(4, 6))


def test_views_show_the_same_images_and_the_truth_is_of_each_once() -> None:
    own = numbered(views=2)
    for _ in range(4):
        shown: Unlabelled = own.next(0)[0]
        assert shown.images == 2
        assert shown.truth is not None
        assert shown.truth.tolist() == [[place % 3 for place in row] for row in seen(shown.x[:, :2])]
        assert seen(shown.x[:, :2]) == seen(shown.x[:, 2:])


def test_replicas_do_not_feel_each_other() -> None:
    together, alone = numbered((1, 2)), numbered((1,))
    for _ in range(9):
        assert torch.equal(together.next(0)[0].x[:1], alone.next(0)[0].x)


def test_it_goes_on_where_it_was() -> None:
    first, again = numbered(augment=True), numbered(augment=True)
    for _ in range(4):
        first.next(0)
    tensors: dict[str, Tensor] = {}
    restore(again, pack(first, tensors), tensors, CPU)
    for _ in range(4):
        assert torch.equal(first.next(0)[0].x, again.next(0)[0].x)


@pytest.mark.parametrize("which", ["held-out", "unlabelled"])
def test_tasks_with_sources_of_their_own_show_their_own_images(which: OwnPoolName) -> None:
    x = np.arange(20, dtype=np.uint8).reshape(20, 1, 1) * 10
    parts = [(x[:8], [0, 1] * 4, x[:2], [0, 1]), (x[8:], [2, 1] * 6, x[:2], [1, 2])]
    tasks, facts = own_scenario(own_tasks(parts))
    few = {"samples": 6} if which == "held-out" else {"labels": 6}
    built = Stream(tasks, (1, 1, 1), facts, "digest", **few)
    shown = pool(built, which)
    for task in (0, 1, 0):  # back again, as when the same pool serves another row
        own, truth = shown.images(task, SEEDS, np.tile(np.arange(2), (2, 1)))
        known = {int(value): y for value, y in zip(parts[task][0].ravel(), tasks[task].train.y, strict=True)}
        assert truth is not None
        assert [known[round(255 * float(each))] for each in own.flatten()] == truth.flatten().tolist()
