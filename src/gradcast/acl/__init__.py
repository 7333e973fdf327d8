"""Adversarial continual learning: shared features that do not tell tasks apart, private ones for each task.

A run of two seeds on any source of images, here without unlabelled ones::

    place = {"device": torch.device("cpu"), "dtype": torch.float32}
    lessons = Lessons(source, [0, 1], tasks=20, width=5, validation=0.15, scale=Scale(), **place)
    learner = Acl(lambda: acl_network(source.shape, 5), [0, 1], **place)
    EpochLoop(lessons, learner, Schedule()).run(observers)
"""

from gradcast.acl.learner import Acl
from gradcast.acl.settings import AclSettings

__all__ = ["Acl", "AclSettings"]
