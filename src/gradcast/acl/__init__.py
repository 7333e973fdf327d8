"""Adversarial continual learning: shared features that do not tell tasks apart, private ones for each task."""

from gradcast.acl.learner import Acl
from gradcast.acl.settings import AclSettings

__all__ = ["Acl", "AclSettings"]
