"""The embedded pool: crops of the two photographs that ship with scikit-learn."""

import numpy as np
from PIL import Image

from gradcast.data.files import fit
from gradcast.data.images import Pixels, Shape
from gradcast.randomness import numpy_generator


def patches(shape: Shape, *, count: int, data_seed: int) -> Pixels:
    """Square crops, one to four times the stream's size, scaled down to it."""
    from sklearn.datasets import load_sample_images  # here, not above: a second of start-up

    channels, height, width = shape
    photographs = [Image.fromarray(image) for image in load_sample_images().images]
    generator = numpy_generator(data_seed, "patches")
    crops = []
    for _ in range(count):
        photograph = photographs[generator.integers(len(photographs))]
        side = min(int(generator.uniform(1, 4) * max(height, width)), *photograph.size)
        left, top = (int(generator.integers(extent - side + 1)) for extent in photograph.size)
        crops.append(fit(photograph.crop((left, top, left + side, top + side)), (channels, height, width)))
    return np.stack(crops)
