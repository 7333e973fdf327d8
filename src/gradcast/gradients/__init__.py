"""The idea: a learner that predicts gradients, and the cone that past tasks allow."""

from gradcast.gradients.cone import project, solve
from gradcast.gradients.gradient_learner import GradientLearner

__all__ = ["GradientLearner", "project", "solve"]
