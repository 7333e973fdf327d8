"""A source for tuning: training images take the place of the test images, which nobody sees."""

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from gradcast.data.images import Images, Source
from gradcast.data.own_tasks import OwnTasks, told_of
from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator

Found = Source | OwnTasks


def tuning_source(found: Found, share: float, data_seed: int) -> Found:
    """The same classes; this share of the training images of every class is held out of training and tested on.

    The test images are no part of it, not even of its digest.
    """
    if isinstance(found, Source):
        return _held_out(found, share, data_seed, "")
    sources = []
    for name, source in zip(found.names, found.sources, strict=True):
        with told_of(name):
            sources.append(_held_out(source, share, data_seed, name))
    return OwnTasks(found.names, tuple(sources), found.name)


def validation_places(
    y: Int[np.ndarray, " n"], share: float, data_seed: int, name: str = ""
) -> Int[np.ndarray, " held"]:
    """Places of the images that are held out, in rising order: of every class the share, but at least one.

    A class with a single image keeps it for training.
    """
    generator, chosen = numpy_generator(data_seed, "validation", name), list[np.ndarray]()
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        count = min(max(round(share * len(own)), 1), len(own) - 1)
        chosen.append(generator.permutation(own)[:count])
    return np.sort(np.concatenate(chosen))


def _held_out(source: Source, share: float, data_seed: int, name: str) -> Source:
    held = validation_places(source.train.y, share, data_seed, name)
    if not len(held):
        raise GradcastError(
            f"{source.name} has one training image a class, and none can be held out; set stream.validation to 0"
        )
    rest = np.setdiff1d(np.arange(len(source.train)), held, assume_unique=True)
    train, test = (Images(source.train.x[own], source.train.y[own]) for own in (rest, held))
    return replace(source, train=train, test=test, known=None)
