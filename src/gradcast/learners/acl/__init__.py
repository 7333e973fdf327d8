"""Adversarial continual learning: shared features that do not tell tasks apart, private ones for each task.

A run of two seeds on any source of images, here without unlabelled ones::

    place = Place(torch.device("cpu"), torch.float32)
    lessons = Curriculum(source, range(20), 5, 0.15, Scale()).lessons([0, 1], place)
    learner = Acl(lambda: acl_network(source.shape, 5), [0, 1], place=place)
    EpochLoop(lessons, learner, Schedule()).run(observers)
"""

from gradcast.learners.acl.acl import Acl
from gradcast.learners.acl.settings import AclSettings

__all__ = ["Acl", "AclSettings"]
