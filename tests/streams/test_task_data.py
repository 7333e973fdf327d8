import numpy as np
import pytest
import torch
from gradcast.epochs.lessons import NOBODY, Lessons, class_order

from gradcast.data.images import Images, Source
from gradcast.errors import GradcastError
from gradcast.streams.scale import Scale
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


def lessons(seeds: list[int], **options: object) -> Lessons:
    settings = {"tasks": 2, "width": 3, "validation": 0.2, **options}
    return Lessons(source(), seeds, scale=Scale(), device=CPU, dtype=torch.float64, **settings)  # type: ignore[arg-type]


def test_class_order_is_numpys_for_the_seed() -> None:
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.permutation(CLASSES)  # noqa: NPY002
    assert class_order(3, CLASSES).tolist() == expected.tolist()
    found = lessons([3, 5]).orders
    assert found[0].ravel().tolist() == expected[:6].tolist()
    assert found[0].tolist() != found[1].tolist()


def test_parts_hold_the_classes_in_order_and_no_image_twice() -> None:
    made = lessons([3, 5])
    for task in range(2):
        parts = [made.train(task), made.validation(task)]
        assert [part.y.shape[1] for part in parts] == [24, 6] == [made.count, made.held]
        for replica in range(2):
            seen = [part.x[part.index[replica], 0, 0] for part in parts]
            for part, pixels in zip(parts, seen, strict=True):
                order = torch.from_numpy(made.orders[replica, task])
                assert torch.equal(pixels[:, 0].long(), order[part.y[replica]])
            assert len(set(torch.cat(seen)[:, 1].tolist())) == 30


def test_test_sets_of_unequal_size_are_complete_and_their_gaps_belong_to_nobody() -> None:
    made = lessons([3, 5])
    part = made.test(1)
    expected = [sum(4 + label for label in made.orders[replica, 1]) for replica in range(2)]
    assert part.counts.tolist() == expected
    assert part.y.shape[1] == max(expected)
    assert int((part.y == NOBODY).sum()) == abs(expected[0] - expected[1])


def test_larger_classes_give_no_more_training_images() -> None:
    made = Lessons(source(6), [0], tasks=2, width=3, validation=0.2, scale=Scale(), device=CPU, dtype=torch.float64)
    assert (made.each, made.count, made.held) == (EACH, 24, 6)


def test_epochs_are_shuffled_by_seed_task_and_epoch_whoever_is_beside() -> None:
    together, alone = lessons([3, 5]), lessons([5])
    for epoch in range(2):
        for ours, own in zip(together.epoch(1, epoch, 7), alone.epoch(1, epoch, 7), strict=True):
            assert torch.equal(ours.x[1:], own.x)
            assert torch.equal(ours.y[1:], own.y)
            assert ours.task == 1
    first, second = ([batch.y for batch in together.epoch(1, epoch, 7)] for epoch in range(2))
    assert [y.shape[1] for y in first] == [7, 7, 7, 3]
    assert len(first) == together.length(7)
    assert not torch.equal(torch.cat(first, 1), torch.cat(second, 1))
    assert torch.equal(torch.cat(first, 1).sort(1).values, together.train(1).y.sort(1).values)


def test_batches_are_scaled() -> None:
    batch = next(lessons([3]).epoch(0, 0, 4))
    assert batch.x.dtype == torch.float64
    assert float(batch.x.max()) == float(batch.x[..., 0, :].max()) <= 69 / 255


def test_the_published_sizes() -> None:
    y = np.repeat(np.arange(10), 500)
    images = Images(np.zeros((len(y), 1, 1, 1), dtype=np.uint8), y)
    made = Source("flat", images, images, tuple("abcdefghij"))
    for validation, train, held, batches in ((0.15, 2125, 375, 34), (0.02, 2450, 50, 39)):
        settings = {"tasks": 2, "width": 5, "validation": validation, "scale": Scale()}
        found = Lessons(made, [0], device=CPU, dtype=torch.float32, **settings)  # type: ignore[arg-type]
        assert (found.count, found.held, found.length(64)) == (train, held, batches)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": 3}, "3 tasks of 3 classes need 9 classes and made has 7"),
        ({"validation": 0.0}, "leaves 0 to validate"),
        ({"validation": 1.0}, "and 0 to train on"),
    ],
)
def test_what_does_not_fit_is_said(options: dict[str, object], message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        lessons([0], **options)


def test_a_class_without_images_is_named() -> None:
    whole = source()
    y = np.where(whole.train.y == 4, 3, whole.train.y)
    with pytest.raises(GradcastError, match="class 4 has no training or no test images"):
        Lessons(
            Source("made", Images(whole.train.x, y), whole.test, whole.classes),
            [0],
            tasks=2,
            width=3,
            validation=0.2,
            scale=Scale(),
            device=CPU,
            dtype=torch.float64,
        )


def test_equal_batches_are_folded_and_a_short_one_comes_alone() -> None:
    own = lessons((3, 4))
    part = own.train(0)  # 24 images
    found = list(own.folded(part, 5, 3))
    assert [(batch.y.shape[1], count) for batch, count in found] == [(15, 3), (5, 1), (4, 1)]
    assert torch.equal(torch.cat([batch.y for batch, _ in found], 1), part.y)


def test_later_epochs_show_the_same_images_again() -> None:
    own = lessons((3,))
    assert [[batch.again for batch in own.epoch(0, epoch, 24)] for epoch in range(3)] == [[False], [True], [True]]
