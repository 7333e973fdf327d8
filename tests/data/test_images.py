import numpy as np
import pytest

from gradcast.data.images import Images, move_pixels
from gradcast.errors import GradcastError


def test_labels_and_images_must_match() -> None:
    with pytest.raises(GradcastError, match="3 images but 2 labels"):
        Images(np.zeros((3, 1, 2, 2), np.uint8), np.zeros(2, np.int64))


def test_only_keeps_classes_and_renumbers_them_in_the_given_order() -> None:
    images = Images(np.arange(6, dtype=np.uint8).reshape(6, 1, 1, 1), np.array([0, 1, 2, 3, 2, 1]))
    kept = images.only([2, 1])
    assert kept.x.ravel().tolist() == [1, 2, 4, 5]
    assert kept.y.tolist() == [1, 0, 0, 1]


def test_move_pixels() -> None:
    x = np.array([[[[10, 20], [30, 40]]]], np.uint8)
    assert move_pixels(x, np.array([3, -1, 0, 0])).tolist() == [[[[40, 0], [10, 10]]]]
    assert move_pixels(x, None) is x
    assert x.tolist() == [[[[10, 20], [30, 40]]]]
