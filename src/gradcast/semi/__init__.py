"""Semi-supervised learning: one task, few labels, many images of the same classes without."""

from gradcast.semi.loop import SemiLoop
from gradcast.semi.schedule import Schedule
from gradcast.semi.step import SemiStep
from gradcast.semi.supply import Supply

__all__ = ["Schedule", "SemiLoop", "SemiStep", "Supply"]
