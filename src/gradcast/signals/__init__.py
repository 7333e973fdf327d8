"""Signals: what turns unlabelled images into a gradient, and the policy that says when."""

from gradcast.signals.policy import Draws, Policy, Views
from gradcast.signals.predicted import Predicted

__all__ = ["Draws", "Policy", "Predicted", "Views"]
