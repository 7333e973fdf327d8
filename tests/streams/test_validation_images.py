import numpy as np
import pytest

import gradcast
from gradcast.data.images import Source
from gradcast.data.own_tasks import own_tasks
from gradcast.errors import GradcastError
from gradcast.streams.validation_images import tuning_source, validation_places


def source(*, test: int = 0, images: int = 40) -> Source:
    """Every training image has a grey of its own; test images all have the same."""
    x = np.arange(images, dtype=np.uint8).reshape(-1, 1, 1) * np.ones((1, 4, 4), dtype=np.uint8)
    y = np.arange(images) % 4
    return gradcast.own_data(x, y, np.full((8, 4, 4), 200 + test, dtype=np.uint8), np.arange(8) % 4)


def greys(images: np.ndarray) -> set[int]:
    return set(images[:, 0, 0, 0].tolist())


def test_the_share_of_every_class_is_held_out_and_no_test_image_is_left() -> None:
    made = tuning_source(source(), 0.2, 0)
    assert isinstance(made, Source)
    assert np.bincount(made.test.y).tolist() == [2, 2, 2, 2]
    assert greys(made.train.x) | greys(made.test.x) == set(range(40))
    assert not greys(made.train.x) & greys(made.test.x)


def test_other_test_images_change_nothing_not_even_the_digest() -> None:
    one, other = (tuning_source(source(test=number), 0.2, 0) for number in (0, 1))
    assert one.content == other.content
    assert tuning_source(source(), 0.2, 1).content != one.content


def test_a_class_keeps_an_image_to_train_on_and_gives_one_where_it_can() -> None:
    y = np.array([0, 0, 1, 2, 2, 2])
    assert np.bincount(y[validation_places(y, 0.01, 0)], minlength=3).tolist() == [1, 0, 1]
    assert np.bincount(y[validation_places(y, 0.99, 0)], minlength=3).tolist() == [1, 0, 2]


def test_one_image_a_class_is_a_sentence() -> None:
    with pytest.raises(GradcastError, match="one training image a class"):
        tuning_source(source(images=4), 0.5, 0)


def test_tasks_of_ones_own_are_held_out_task_by_task() -> None:
    made = tuning_source(own_tasks([source(), source()]), 0.2, 0)
    assert isinstance(made, gradcast.OwnTasks)
    assert [len(own.test) for own in made.sources] == [8, 8]
    assert greys(made.sources[0].test.x) != greys(made.sources[1].test.x)  # each task draws its own
