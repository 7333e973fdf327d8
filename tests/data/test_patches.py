import numpy as np

from gradcast.data.patches import patches


def test_patches_are_seeded_and_fit_the_stream() -> None:
    grey, colour = patches((1, 8, 8), count=20, data_seed=0), patches((3, 32, 32), count=5, data_seed=0)
    assert grey.shape == (20, 1, 8, 8)
    assert colour.shape == (5, 3, 32, 32)
    assert np.array_equal(grey, patches((1, 8, 8), count=20, data_seed=0))
    assert not np.array_equal(grey, patches((1, 8, 8), count=20, data_seed=1))
    assert grey.std() > 10
