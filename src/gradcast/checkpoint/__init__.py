"""Checkpoints: what a run remembers, on disk, so that it may stop anywhere and go on to the same bytes."""
