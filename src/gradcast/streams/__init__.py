"""Streams of labelled tasks and pools of unlabelled images."""

from gradcast.streams.pool import Pool
from gradcast.streams.stream import Stream, Task

__all__ = ["Pool", "Stream", "Task"]
