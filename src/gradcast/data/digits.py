"""The handwritten digits that ship with scikit-learn: 1,797 images of 8x8, no download."""

import numpy as np

from gradcast.data.images import Images, Source
from gradcast.randomness import numpy_generator

TEST_IMAGES = 500


def digits(data_seed: int) -> Source:
    """1,297 images to train on and 500 to test on; the split is drawn from the data seed."""
    from sklearn.datasets import load_digits  # here, not above: it takes longer to import than many commands to run

    x, y = load_digits(return_X_y=True)
    pixels = np.rint(x * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)
    order = numpy_generator(data_seed, "digits", "split").permutation(len(pixels))
    labels = y.astype(np.int64)
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    names = tuple(str(digit) for digit in range(10))
    return Source("digits", Images(pixels[train], labels[train]), Images(pixels[test], labels[test]), names)
