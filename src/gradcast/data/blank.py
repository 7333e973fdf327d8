"""Pools that show nothing: what they do to a model, any images would."""

import numpy as np

from gradcast.data.images import Pixels, Shape
from gradcast.randomness import numpy_generator


def grey(shape: Shape, *, count: int) -> Pixels:
    """Images of one grey each, from black to white."""
    levels = np.linspace(0, 255, count).round().astype(np.uint8)
    return np.broadcast_to(levels[:, None, None, None], (count, *shape)).copy()


def pixels(shape: Shape, *, count: int, data_seed: int) -> Pixels:
    """Every pixel of every channel by itself, all values alike."""
    return numpy_generator(data_seed, "pixels").integers(256, size=(count, *shape), dtype=np.uint8)
