"""Checkpoints: what a run remembers, on disk, so that it may stop anywhere and go on to the same bytes."""

from gradcast.checkpoint.keeper import Checkpoints, Saving

__all__ = ["Checkpoints", "Saving"]
