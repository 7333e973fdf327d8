"""Many epochs a task: lessons, the learning rate's plateau, the loop, and what a learner must offer it."""

from gradcast.epochs.core import EpochLearner
from gradcast.epochs.lessons import Lessons
from gradcast.epochs.loop import EpochLoop
from gradcast.epochs.schedule import Schedule
from gradcast.epochs.steps import StepEpochs
from gradcast.epochs.supply import Supply

__all__ = ["EpochLearner", "EpochLoop", "Lessons", "Schedule", "StepEpochs", "Supply"]
