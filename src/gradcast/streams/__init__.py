"""Streams of labelled tasks and pools of unlabelled images."""
