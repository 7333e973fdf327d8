from typing import Any

import numpy as np
import pytest
import torch

from gradcast.core import Batch
from gradcast.data.images import Images, Source
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.streams import scenarios
from gradcast.streams.scenarios import class_order
from gradcast.streams.stream import Stream
from gradcast.streams.task_data import NO_IMAGE, TaskData
from tests.helpers import CPU

CLASSES, EACH = 7, 10


def source(extra: int = 0, tests: int = 4) -> Source:
    """Class k has images whose first pixel is k and whose second tells them apart; class 0 may have more."""

    def images(counts: list[int]) -> Images:
        y = np.repeat(np.arange(CLASSES), counts)
        x = np.zeros((len(y), 1, 2, 2), dtype=np.uint8)
        x[:, 0, 0, 0], x[:, 0, 0, 1] = y, np.arange(len(y))
        return Images(x, y)

    more = [EACH + extra] + [EACH] * (CLASSES - 1)
    test = [tests + index for index in range(CLASSES)]
    return Source("made", images(more), images(test), tuple("abcdefg"))


def made_of(whole: Source, seeds: list[int], tasks: int, width: int, validation: float) -> TaskData:
    own, facts = scenarios.seeded(whole, tasks, classes_per_task=width)
    stream = Stream(own(0), whole.shape, facts, own_tasks=own)
    return TaskData(stream, seeds, Place(CPU, torch.float64), validation=validation)


def lessons(seeds: list[int], *, tasks: int = 2, validation: float = 0.2) -> TaskData:
    return made_of(source(), seeds, tasks, 3, validation)


def orders(data: TaskData) -> np.ndarray:
    """The classes of every seed's tasks."""
    return np.stack([class_order(seed, CLASSES)[:6].reshape(2, 3) for seed in data.seeds])


def epoch(data: TaskData, task: int, number: int, size: int) -> list[Batch]:
    return list(data.batches(data.epoch(task, number), size))


def test_class_order_is_numpys_for_the_seed() -> None:
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.permutation(CLASSES)  # noqa: NPY002
    assert class_order(3, CLASSES).tolist() == expected.tolist()
    found = lessons([3, 5])
    for task in range(2):
        own = [found.stream.task(task, seed).train for seed in (3, 5)]
        shown = [each.source[each.places, 0, 0, 0][np.sort(np.unique(each.y, return_index=True)[1])] for each in own]
        assert shown[0].tolist() == expected[3 * task : 3 * task + 3].tolist()
        assert shown[0].tolist() != shown[1].tolist()


def test_parts_hold_the_classes_in_order_and_no_image_twice() -> None:
    made = lessons([3, 5])
    for task in range(2):
        parts = [made.train(task), made.validation(task)]
        assert [part.y.shape[1] for part in parts] == [24, 6] == [made.count(task), made.held(task)]
        for replica in range(2):
            seen = [part.x[part.index[replica], 0, 0] for part in parts]
            for part, pixels in zip(parts, seen, strict=True):
                order = torch.from_numpy(orders(made)[replica, task])
                assert torch.equal(pixels[:, 0].long(), order[part.y[replica]])
            assert len(set(torch.cat(seen)[:, 1].tolist())) == 30


def test_test_sets_of_unequal_size_are_complete_and_their_gaps_belong_to_nobody() -> None:
    made = lessons([3, 5])
    part = made.test(1)
    expected = [sum(4 + label for label in orders(made)[replica, 1]) for replica in range(2)]
    assert part.counts.tolist() == expected
    assert part.y.shape[1] == max(expected)
    assert int((part.y == NO_IMAGE).sum()) == abs(expected[0] - expected[1])


def test_larger_classes_give_no_more_training_images() -> None:
    made = made_of(source(6), [0], 2, 3, 0.2)
    assert [(made.count(task), made.held(task)) for task in range(2)] == [(24, 6)] * 2


def test_epochs_are_shuffled_by_seed_task_and_epoch_whoever_is_beside() -> None:
    together, alone = lessons([3, 5]), lessons([5])
    for number in range(2):
        for ours, own in zip(epoch(together, 1, number, 7), epoch(alone, 1, number, 7), strict=True):
            assert torch.equal(ours.x[1:], own.x)
            assert torch.equal(ours.y[1:], own.y)
            assert ours.task == 1
    first, second = ([batch.y for batch in epoch(together, 1, number, 7)] for number in range(2))
    assert [y.shape[1] for y in first] == [7, 7, 7, 3]
    assert len(first) == together.length(1, 7)
    assert not torch.equal(torch.cat(first, 1), torch.cat(second, 1))
    assert torch.equal(torch.cat(first, 1).sort(1).values, together.train(1).y.sort(1).values)


def test_batches_are_scaled() -> None:
    batch = epoch(lessons([3]), 0, 0, 4)[0]
    assert batch.x.dtype == torch.float64
    assert float(batch.x.max()) == float(batch.x[..., 0, :].max()) <= 69 / 255


def test_the_published_sizes() -> None:
    y = np.repeat(np.arange(10), 500)
    images = Images(np.zeros((len(y), 1, 1, 1), dtype=np.uint8), y)
    made = Source("flat", images, images, tuple("abcdefghij"))
    for validation, train, held, batches in ((0.15, 2125, 375, 34), (0.02, 2450, 50, 39)):
        found = made_of(made, [0], 2, 5, validation)
        assert (found.count(0), found.held(0), found.length(0, 64)) == (train, held, batches)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": 3}, "3 tasks of 3 classes need 9 classes and made has 7"),
        ({"validation": 0.01}, "leaves 0 to validate"),
        ({"validation": 1.0}, "and 0 to train on"),
    ],
)
def test_what_does_not_fit_is_said(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        lessons([0], **options)


def test_a_class_without_images_is_named() -> None:
    whole = source()
    y = np.where(whole.train.y == 4, 3, whole.train.y)
    with pytest.raises(GradcastError, match="class 4 has no training or no test images"):
        made_of(Source("made", Images(whole.train.x, y), whole.test, whole.classes), [0], 2, 3, 0.2)


def test_equal_batches_are_folded_and_a_short_one_comes_alone() -> None:
    own = lessons([3, 4])
    part = own.train(0)  # 24 images
    found = list(own.folded(part, 5, 3))
    assert [(batch.y.shape[1], count) for batch, count in found] == [(15, 3), (5, 1), (4, 1)]
    assert torch.equal(torch.cat([batch.y for batch, _ in found], 1), part.y)


def test_the_description_depends_on_no_seed_and_says_what_is_set_aside() -> None:
    facts = lessons([3, 4]).describe()
    assert facts == lessons([7]).describe()
    assert facts["labelled_images"] == [24, 24]
    assert facts["validation_images"] == 6
    assert facts["class_order"] == f"numpy.random.RandomState(seed).permutation({CLASSES})"
    whole = lessons([3], validation=0.0).describe()
    assert whole["labelled_images"] == [30, 30]
    assert "validation_images" not in whole


def test_without_a_share_nothing_is_set_aside_and_images_lie_in_rising_order() -> None:
    own = lessons([3, 5], validation=0.0)
    assert own.validation(0).y.shape == (2, 0)
    for replica in range(2):
        places = own.train(1).index[replica]
        assert len(set(places.tolist())) == 30


def test_of_few_labels_a_share_is_set_aside() -> None:
    own, facts = scenarios.seeded(source(), 2, classes_per_task=3)
    stream = Stream(own(0), (1, 2, 2), facts, labels=15, own_tasks=own)
    data = TaskData(stream, [3, 5], Place(CPU, torch.float64), validation=0.2)
    assert (data.count(0), data.held(0)) == (12, 3)
    for replica, seed in enumerate((3, 5)):
        both = [part.x[part.index[replica], 0, 0, 1] for part in (data.train(1), data.validation(1))]
        subset = stream.task(1, seed).train
        chosen = subset.source[subset.places[stream.labelled(1, seed)], 0, 0, 1]
        assert sorted(torch.cat(both).tolist()) == sorted(chosen.tolist())


def test_some_images_of_every_class_are_set_aside_and_the_others_keep_their_order() -> None:
    whole = source(extra=4)
    tasks, facts = scenarios.seeded(whole, 2, classes_per_task=3)
    stream = Stream(tasks(0), whole.shape, facts, own_tasks=tasks)
    data = TaskData(stream, [3, 5], Place(CPU, torch.float64), aside=2)
    plain = TaskData(stream, [3, 5], Place(CPU, torch.float64))
    for task in range(2):
        held, train, first = data.validation(task), data.train(task), data.first_pass(task)
        assert (data.held(task), data.count(task)) == (6, plain.count(task) - 6)
        for replica in range(2):
            assert held.y[replica].bincount().tolist() == [2, 2, 2]
            known = {
                part: portion.x[portion.index[replica], 0, 0, 1].tolist()
                for part, portion in (("held", held), ("train", train), ("first", first))
            }
            every = plain.first_pass(task)
            order = every.x[every.index[replica], 0, 0, 1].tolist()
            assert known["first"] == [image for image in order if image not in known["held"]]
            assert sorted(known["train"]) == sorted(known["first"])
    assert data.describe()["validation_images"] == 6
    with pytest.raises(GradcastError, match=r"learner\.memory sets 30 of the 30 labelled images of task 0 aside"):
        TaskData(lessons([3]).stream, [3], Place(CPU, torch.float64), aside=10)
