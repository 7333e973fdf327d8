"""Which images keep their labels: equally many of every class, drawn from the seed."""

import numpy as np
from jaxtyping import Int

from gradcast.errors import GradcastError
from gradcast.randomness import numpy_generator


def choose_labelled(
    y: Int[np.ndarray, " n"], count: int, seed: int, *, task: int = 0, classes: int
) -> Int[np.ndarray, " count"]:
    """Slots of the images that keep their label, in rising order.

    Where ``count`` is no multiple of the number of classes, some classes, drawn too, have one image more. A smaller
    choice of the same seed is part of a larger one.
    """
    if count > len(y):
        raise GradcastError(
            f"{count} labels are asked for and task {task} has {len(y)} training images; lower stream.labels"
        )
    if count < classes:
        raise GradcastError(
            f"{count} labels leave some of the {classes} classes without any; set stream.labels to {classes} or more"
        )
    own = numpy_generator(seed, "labels", *of_task(task))
    each, more = divmod(count, classes)
    favoured, most = set(own.permutation(classes)[:more].tolist()), each + (more > 0)
    chosen = []
    for label in range(classes):
        places = own.permutation(np.flatnonzero(y == label))
        if len(places) < most:  # what suffices for one seed suffices for all
            raise GradcastError(
                f"class {label} of task {task} has {len(places)} training images and {most} are to be labelled; "
                "lower stream.labels"
            )
        chosen.append(places[: each + (label in favoured)])
    return np.sort(np.concatenate(chosen))


def of_task(task: int) -> tuple[int, ...]:
    """What the name of a random stream ends with, where every task has its own; the first task's has no number."""
    return (task,) if task else ()
