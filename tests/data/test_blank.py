import numpy as np
import pytest

from gradcast.data.blank import grey, pixels


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 4, 6)])
def test_grey_images_go_from_black_to_white_and_are_of_one_value_each(shape: tuple[int, int, int]) -> None:
    found = grey(shape, count=6)
    assert found.shape == (6, *shape)
    assert found.dtype == np.uint8
    assert found[:, 0, 0, 0].tolist() == [0, 51, 102, 153, 204, 255]
    assert (found == found[:, :1, :1, :1]).all()


def test_a_single_grey_image() -> None:
    assert grey((1, 2, 2), count=1).tolist() == [[[[0, 0], [0, 0]]]]


def test_random_pixels_are_seeded_and_take_all_values_alike() -> None:
    found = pixels((3, 16, 16), count=100, data_seed=0)
    assert found.shape == (100, 3, 16, 16)
    assert np.array_equal(found, pixels((3, 16, 16), count=100, data_seed=0))
    assert not np.array_equal(found, pixels((3, 16, 16), count=100, data_seed=1))
    counts = np.bincount(found.ravel(), minlength=256)
    assert (abs(counts - 300) < 6 * 300**0.5).all()  # 300 expected of each
