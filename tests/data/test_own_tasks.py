import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from gradcast.data.images import Moments
from gradcast.data.own_images import own_data
from gradcast.data.own_tasks import OwnTasks, own_tasks
from gradcast.errors import GradcastError
from tests.data.hostile import refusal

X = np.random.default_rng(0).integers(0, 256, (8, 4, 5), dtype=np.uint8)


def task(*labels: object, x: np.ndarray = X) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two training images and one test image of every label."""
    y = np.array(labels)
    return x[: 2 * len(y)], np.tile(y, 2), x[: len(y)], y


def test_classes_of_one_name_are_one_class_wherever_they_come() -> None:
    found = own_tasks([task("dog", "cat"), task("bird", "cat"), task("dog", "cat")])
    assert found.classes == ("cat", "dog", "bird")  # as they appear, sorted within a task
    assert [found.numbers(number) for number in range(3)] == [(0, 1), (2, 0), (0, 1)]
    assert found.counts() == {"train": [6, 4, 2], "test": [3, 2, 1]}
    assert found.names == ("0", "1", "2")


def test_arrays_tensors_datasets_and_sources_mean_the_same() -> None:
    x_train, y_train, x_test, y_test = (torch.from_numpy(part) for part in task(3, 7))
    forms: list[Any] = [
        task(3, 7),
        (x_train, y_train, x_test, y_test),
        (TensorDataset(x_train, y_train), TensorDataset(x_test, y_test)),
        own_data(*task(3, 7)),
    ]
    contents = {source.content for source in own_tasks(forms).sources}
    assert len(contents) == 1


def test_moments_are_those_of_all_images_together() -> None:
    parts = [task(0, 1), task(2, x=X[::-1].copy()), task(0, 1, 2, 3)]
    together = own_data(*(np.concatenate([part[place] for part in parts]) for place in range(4)))
    assert own_tasks(parts).moments == Moments.of(together.train.x)


@pytest.mark.parametrize(
    "other",
    [
        {"a": task(0, 1), "c": task(1, 2)},
        {"b": task(0, 1), "a": task(1, 2)},
        {"a": task(0, 1), "b": task(1, 3)},
        {"a": task(0, 1), "b": task(2, 1)},
        {"a": task(0, 1), "b": task(1, 2, x=X[::-1].copy())},
    ],
    ids=["a name", "the order", "a class", "labels", "images"],
)
def test_another_name_order_label_or_image_is_another_content(other: dict[str, Any]) -> None:
    own = own_tasks({"a": task(0, 1), "b": task(1, 2)})
    assert own.content == own_tasks({"a": task(0, 1), "b": task(1, 2)}).content
    assert own.content != own_tasks(other).content


def test_tasks_come_to_one_size_and_colour() -> None:
    grey, colour = task(0, 1), task(0, 2, x=np.repeat(X[:, :3, :3, None], 3, axis=3))
    with pytest.raises(
        GradcastError, match=r"task '0' has images of shape \(1, 4, 5\) and task '1' images of shape \(3, 3, 3\)"
    ):
        _ = own_tasks([grey, colour]).shape
    assert own_tasks([grey, colour]).converted("grey", 4).shape == (1, 4, 4)


def test_vectors_of_one_length_make_a_stream_and_others_do_not() -> None:
    rows = X.reshape(8, 20).astype(np.float32)
    assert own_tasks([task(0, 1, x=rows), task(2, x=rows)]).shape == (20,)
    for other, words in ((rows[:, :5], r"vectors of shape \(5,\)"), (X, r"images of shape \(1, 4, 5\)")):
        message = rf"task '0' has vectors of shape \(20,\) and task '1' {words}; bring images alone, or vectors of one"
        with pytest.raises(GradcastError, match=message):
            _ = own_tasks([task(0, 1, x=rows), task(2, x=other)]).shape


def test_what_is_new_and_what_returns_is_told() -> None:
    told = own_tasks({"january": task("cat", "dog"), "february": task("bird", "cat")}).classes_in_words()
    assert told == (
        "2 tasks, 3 classes. task 'january': 4 images to train and 2 to test on; new: cat, dog. "
        "task 'february': 4 images to train and 2 to test on; new: bird; again: cat"
    )


def _same_name_twice() -> OwnTasks:
    sources = own_tasks([task(0), task(1)]).sources
    return OwnTasks(("a", "a"), sources)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: own_tasks([task(0, 1)]), "your tasks has one task, '0', and a stream of tasks needs two or more; for"),
        (lambda: own_tasks([]), "your tasks has no task, and a stream"),
        (_same_name_twice, "2 tasks of your tasks are called 'a'; rename all but one"),
        (lambda: own_tasks({"a": task(0), "b": X}), "task 'b': a ndarray is no task; give .x_train, y_train"),
        (lambda: own_tasks({"a": task(0), "b": (X, X, X)}), "task 'b': a tuple is no task"),
        (
            lambda: own_tasks({"a": task(0), "b": (X[:2], np.array([0, 1]), X[:3], np.array([0, 1, 2]))}),
            "task 'b': label 2 has test images but no training image",
        ),
        (
            lambda: own_tasks({"a": task(0), "b": (X[:2], np.array([0, 1]), X[:0], np.array([], dtype=int))}),
            "task 'b': x_test is empty",
        ),
    ],
)
def test_tasks_that_cannot_be_used(make: Callable[[], OwnTasks], message: str) -> None:
    assert re.search(message, refusal(make))
