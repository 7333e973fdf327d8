"""When unlabelled images are used."""

from typing import Literal

from gradcast.replicas.replicas import Statistics
from gradcast.specs.table import Natural, Positive, Probability, Table

Update = Literal["joint", "sequential"]


class Policy(Table):
    """When a step uses unlabelled images, how many, and what happens to their gradient; every signal obeys the same."""

    p: Probability = 0.15  # probability that a step uses an unlabelled batch
    start: Natural = 0  # first step that may
    batch: Positive = 4  # images in an unlabelled batch
    update: Update = "joint"  # joint: one step along both gradients; sequential: a step of its own
    project: bool = True  # whether the learner's constraints apply to the signal's gradient too
    batchnorm: Statistics = "update"  # what the unlabelled pass does to BatchNorm statistics
    guard: bool = False  # remove from the signal's gradient what opposes labelled and memory gradients
