"""Checkpoints: the state of a run on disk, so that it may stop anywhere and go on to the same bytes."""
