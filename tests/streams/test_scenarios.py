import random

import numpy as np
import pytest
import torch
from PIL import Image

from gradcast.data.digits import digits
from gradcast.data.images import Images, Source, move_pixels
from gradcast.errors import GradcastError
from gradcast.streams.scenarios import ClassOrder, permuted, rotated, rotation, split
from gradcast.streams.stream import Stream


def divided(tasks: int, classes: int | None = None, order: ClassOrder = "natural", seed: int = 0) -> Stream:
    parts, facts = split(digits(0), tasks, seed, classes_per_task=classes, class_order=order)
    return Stream(parts, (1, 8, 8), facts)


@pytest.mark.parametrize("angle", [0.0, 4.7, 45.0, 90.0, 131.313, 179.99])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 9, 12)])
def test_rotation_is_pillows(angle: float, shape: tuple[int, int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    found = move_pixels(pixels[None], rotation(shape, angle))[0]
    expected = [np.asarray(Image.fromarray(plane).rotate(angle, Image.Resampling.NEAREST)) for plane in pixels]
    assert np.array_equal(found, np.stack(expected))


def test_angles_lie_in_equal_parts_of_a_half_turn_and_follow_the_data_seed() -> None:
    angles = rotated(digits(0), 20, 0)[1]["angles"]
    assert all(9 * t <= angle < 9 * t + 9 for t, angle in enumerate(angles))
    assert np.array_equal(angles, rotated(digits(0), 20, 0)[1]["angles"])
    assert not np.array_equal(angles, rotated(digits(0), 20, 1)[1]["angles"])


def test_permutations_are_permutations_and_the_first_task_has_one_too() -> None:
    tasks, facts = permuted(digits(0), 4, 0)
    built = Stream(tasks, (1, 8, 8), facts)
    permutations = built.facts["permutations"]
    assert permutations.shape == (4, 64)
    assert all(np.array_equal(np.sort(order), np.arange(64)) for order in permutations)
    assert not np.array_equal(permutations[0], np.arange(64))
    test = built.test(1).x.reshape(-1, 64)
    assert np.array_equal(test, digits(0).test.x.reshape(-1, 64)[:, permutations[1]])


def test_split_gives_each_task_its_classes_in_natural_order() -> None:
    built = divided(3, 3)
    assert built.facts["class_order"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert built.width == 3
    source = digits(0)
    assert np.array_equal(built.tasks[1].train.images().x, source.train.x[(source.train.y >= 3) & (source.train.y < 6)])
    assert set(built.tasks[1].test.y) == {0, 1, 2}


def test_split_shares_the_classes_out_evenly() -> None:
    assert divided(5).width == 2
    with pytest.warns(UserWarning, match="3 tasks of 3 classes leave out 1 of the 10 of digits"):
        assert divided(3).width == 3


@pytest.mark.parametrize(
    ("tasks", "classes", "needed"), [(6, 2, "6 tasks of 2 classes need 12"), (11, None, "11 tasks of 1")]
)
def test_more_tasks_than_classes_allow(tasks: int, classes: int | None, needed: str) -> None:
    with pytest.raises(GradcastError, match=f"{needed}.*digits has 10"):
        divided(tasks, classes)


def test_a_task_keeps_its_classes_and_renumbers_them_in_the_given_order() -> None:
    images = Images(np.arange(6, dtype=np.uint8).reshape(6, 1, 1, 1), np.array([0, 1, 2, 3, 2, 1]))
    (task,), _ = split(Source("x", images, images, tuple("0123")), 1, 0, classes_per_task=2, class_order=[2, 1])
    kept = task.train.images()
    assert task.classes == (2, 1)
    assert kept.x.ravel().tolist() == [1, 2, 4, 5]
    assert kept.y.tolist() == [1, 0, 0, 1]


def test_class_order() -> None:
    assert divided(2, 3, [9, 0, 3, 7, 5, 1]).facts["class_order"].tolist() == [[9, 0, 3], [7, 5, 1]]
    shuffled = divided(5, 2, "shuffled").facts["class_order"]
    assert sorted(shuffled.ravel().tolist()) == list(range(10))
    assert np.array_equal(shuffled, divided(5, 2, "shuffled").facts["class_order"])
    assert not np.array_equal(shuffled, divided(5, 2, "shuffled", seed=1).facts["class_order"])
    source = digits(0)
    assert np.array_equal(
        divided(2, 3, [9, 0, 3, 7, 5, 1]).tasks[0].train.images().x[:1],
        source.train.x[np.isin(source.train.y, [9, 0, 3])][:1],
    )


@pytest.mark.parametrize(
    ("order", "message"),
    [([0, 1, 2, 12], "class 12, which digits has not"), ([0, 1, 1, 2], "a class twice"), ([0, 1], "lists 2 classes")],
)
def test_bad_class_orders(order: list[int], message: str) -> None:
    with pytest.raises(GradcastError, match=message):
        divided(2, 2, order)


def test_an_empty_task_is_named() -> None:
    images = Images(np.zeros((4, 1, 2, 2), np.uint8), np.array([0, 1, 2, 2]))
    without_tests = Images(images.x[:2], images.y[:2])
    with pytest.raises(GradcastError, match=r"task 1 .*has no training or no test images"):
        split(
            Source("tiny", images, without_tests, ("a", "b", "c", "d")), 2, 0, classes_per_task=2, class_order="natural"
        )


def test_the_published_permutations_and_angles_follow_their_generators() -> None:
    """torch.manual_seed(0) and one randperm a task; Python's generator for the angles."""
    torch.manual_seed(0)
    expected = [torch.randperm(64).tolist() for _ in range(3)]
    assert permuted(digits(0), 3, 0)[1]["permutations"].tolist() == expected
    random.seed(0)
    angles = [9.0 * t + 9.0 * random.random() for t in range(20)]
    assert rotated(digits(0), 20, 0)[1]["angles"].tolist() == pytest.approx(angles)
