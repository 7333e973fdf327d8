"""Checkpoints: what a run checkpointed, on disk, so that it may stop anywhere and go on to the same bytes."""
