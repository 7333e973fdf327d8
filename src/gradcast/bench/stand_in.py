"""Random images, where only their numbers and sizes matter."""

import numpy as np

from gradcast.data.images import Images, Source


def stand_in(classes: int, each: int, tested: int, size: int = 32) -> Source:
    """So many images of each class to train and to test on, in random colours."""
    random = np.random.default_rng(0)

    def images(count: int) -> Images:
        shape = (classes * count, 3, size, size)
        return Images(random.integers(0, 256, shape, np.uint8), np.repeat(np.arange(classes), count))

    return Source("stand-in", images(each), images(tested), tuple(map(str, range(classes))))
