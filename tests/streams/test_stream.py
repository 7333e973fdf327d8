import numpy as np
import pytest
import torch

from gradcast.core import Batch
from gradcast.data.digits import digits
from gradcast.devices import Place
from gradcast.errors import GradcastError
from gradcast.streams.augment import AUGMENTATIONS, Augmentation
from gradcast.streams.orders import Passes
from gradcast.streams.scale import Scale
from gradcast.streams.scenarios import permuted, rotated, split
from gradcast.streams.stream import Stream, Subset, Task
from gradcast.streams.task_data import TaskData
from tests.helpers import CPU


def stream(
    samples: int | None = 25, ratio: float = 1.0, steps: tuple[Augmentation, ...] = (), labels: int | None = None
) -> Stream:
    tasks, facts = rotated(digits(0), 3, 0)
    return Stream(tasks, (1, 8, 8), facts, samples=samples, ratio=ratio, steps=steps, labels=labels)


def passes(built: Stream, seeds: list[int], task: int = 0, epochs: int = 1) -> list[Batch]:
    data = TaskData(built, seeds, Place(CPU, torch.float32))
    order = Passes(data, 10)
    order.begin(task)
    return [order.batch(number) for number in range(epochs * data.length(task, 10))]


def batches(built: Stream, seeds: list[int], task: int = 0, epochs: int = 1) -> list[torch.Tensor]:
    return [batch.x for batch in passes(built, seeds, task, epochs)]


def test_last_batch_is_short_and_images_are_counted() -> None:
    built = stream()
    assert [x.shape[1] for x in batches(built, [0])] == [10, 10, 5]
    assert TaskData(built, [0], Place(CPU, torch.float32)).length(0, 10) == 3
    assert stream(None).count(0) == 1297


def test_replicas_see_what_they_would_alone() -> None:
    together = batches(stream(), [0, 1, 2])
    for replica in range(3):
        for both, own in zip(together, batches(stream(), [replica]), strict=True):
            assert torch.equal(both[replica], own[0])
    assert not torch.equal(together[0][0], together[0][1])


def test_samples_never_repeat_within_a_task_and_differ_between_tasks() -> None:
    tasks, facts = rotated(digits(0), 3, 0)
    plain = [Task(task.train, task.test, task.classes, None) for task in tasks]
    seen = torch.cat(batches(Stream(plain, (1, 8, 8), facts), [0]), dim=1)[0].flatten(1)
    everything = Scale()(torch.from_numpy(digits(0).train.x), torch.float32).flatten(1)
    assert sorted(map(tuple, seen.tolist())) == sorted(map(tuple, everything.tolist()))
    first, second = batches(stream(), [0], task=0)[0], batches(stream(), [0], task=1)[0]
    assert not torch.equal(first, second)


def test_epochs_repeat_the_samples_in_another_order() -> None:
    both = torch.cat(batches(stream(), [0, 1], epochs=2), dim=1).flatten(2)
    for replica in range(2):
        first, second = both[replica, :25], both[replica, 25:]
        assert not torch.equal(first, second)
        key = lambda x: sorted(map(tuple, x.tolist()))  # noqa: E731
        assert key(first) == key(second)


def test_labels_belong_to_their_images() -> None:
    tasks, facts = permuted(digits(0), 2, 0)
    built = Stream(tasks, (1, 8, 8), facts, samples=50)
    order = facts["permutations"][1]
    known = {x.tobytes(): int(y) for x, y in zip(digits(0).train.x, digits(0).train.y, strict=True)}
    for batch in passes(built, [5], task=1):
        for x, y in zip(
            (255 * batch.x[0]).round().to(torch.uint8).flatten(1).numpy(), batch.y[0].tolist(), strict=True
        ):
            original = np.empty(64, np.uint8)
            original[order] = x
            assert known[original.tobytes()] == y


def test_the_labelled_ratio_keeps_the_first_of_the_shuffled_samples() -> None:
    whole, part = torch.cat(batches(stream(50), [0]), dim=1), torch.cat(batches(stream(50, ratio=0.4), [0]), dim=1)
    assert part.shape[1] == 20
    assert torch.equal(part, whole[:, :20])


def test_augmented_batches_do_not_depend_on_grouping_and_change_each_epoch() -> None:
    built = stream(30, steps=(AUGMENTATIONS["crop"], AUGMENTATIONS["flip"]))
    together, alone = batches(built, [0, 1], epochs=2), batches(built, [1], epochs=2)
    assert all(torch.equal(both[1], own[0]) for both, own in zip(together, alone, strict=True))
    plain = batches(stream(30), [1])
    assert not torch.equal(plain[0], alone[0])


def test_every_image_of_a_task_is_labelled_shown_without_label_or_held_out() -> None:
    built = stream(100, labels=30)
    for task in range(3):
        labelled, rest, held = built.labelled(task, 5), built.unlabelled(task, 5), built.held_out(task, 5)
        assert (len(labelled), len(rest), len(held)) == (30, 70, 1197)
        assert sorted(np.concatenate([labelled, rest, held]).tolist()) == list(range(1297))
        assert np.bincount(built.tasks[task].train.y[labelled]).tolist() == [3] * 10
        assert set(built.first_pass(task, 5).tolist()) == set(labelled.tolist())
        assert built.first_pass(task, 5).tolist() != labelled.tolist()
    assert built.labelled(0, 5).tolist() != built.labelled(1, 5).tolist()
    assert built.labelled(0, 5).tolist() != built.labelled(0, 6).tolist()


def test_the_description_says_how_many_images_keep_their_label() -> None:
    found = stream(100, labels=30).describe()
    assert found["labelled_images"] == [30] * 3
    assert found["unlabelled_images"] == [70] * 3
    assert "unlabelled_images" not in stream(100).describe()


def test_few_labels_of_tasks_that_divide_the_classes() -> None:
    tasks, facts = split(digits(0), 2, 0, classes_per_task=None, class_order="natural")
    built = Stream(tasks, (1, 8, 8), facts, labels=25)
    for task in range(2):
        assert np.bincount(built.tasks[task].train.y[built.labelled(task, 0)]).tolist() == [5] * 5
        seen = torch.cat([batch.y for batch in passes(built, [0, 1], task)], dim=1)
        assert [row.bincount().tolist() for row in seen] == [[5] * 5] * 2
    with pytest.raises(GradcastError, match="4 labels leave some of the 5 classes without any"):
        Stream(tasks, (1, 8, 8), facts, labels=4).labelled(0, 0)


def test_a_subset_knows_its_images_and_moves_their_pixels() -> None:
    source = digits(0).train
    whole = Subset.whole(source)
    assert len(whole) == len(source)
    some = Subset(source.x, np.array([4, 2]), np.array([1, 0]))
    assert np.array_equal(some.images().x, source.x[[4, 2]])
    turned = some.images(np.arange(64)[::-1].copy()).x
    assert np.array_equal(turned.reshape(2, 64), source.x[[4, 2]].reshape(2, 64)[:, ::-1])
