"""Which images keep their labels: equally many of every class, drawn from the seed."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator


def choose_labelled(
    y: Int[np.ndarray, " n"], count: int, seed: int, *, classes: Sequence[str]
) -> Int[np.ndarray, " count"]:
    """Places of the images that keep their label, in rising order.

    Where ``count`` is no multiple of the number of classes, some classes, drawn too, have one image more. Of fewer
    labels none is new: they are part of more labels of the same seed.
    """
    if count > len(y):
        raise GradcastError(f"{count} labels are asked for and there are {len(y)} training images; lower semi.labels")
    if count < len(classes):
        raise GradcastError(
            f"{count} labels leave some of the {len(classes)} classes without any; set semi.labels to {len(classes)} "
            "or more"
        )
    own = numpy_generator(seed, "labels")
    each, more = divmod(count, len(classes))
    favoured, most = set(own.permutation(len(classes))[:more].tolist()), each + (more > 0)
    chosen = []
    for label, name in enumerate(classes):
        places = own.permutation(np.flatnonzero(y == label))
        if len(places) < most:  # what suffices for one seed suffices for all
            raise GradcastError(
                f"class {name!r} has {len(places)} training images and {most} are to be labelled; lower semi.labels"
            )
        chosen.append(places[: each + (label in favoured)])
    return np.sort(np.concatenate(chosen))


def others(count: int, labelled: Int[np.ndarray, " some"]) -> Int[np.ndarray, " rest"]:
    """Places of all the other images, of ``count``."""
    kept = np.ones(count, dtype=bool)
    kept[labelled] = False
    return np.flatnonzero(kept)
