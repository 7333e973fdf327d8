"""Plain SGD on one task after another: the lower bound."""

from dataclasses import dataclass

from gradcast.core import Learner


@dataclass
class Finetune(Learner):
    """Remembers nothing, changes nothing."""
