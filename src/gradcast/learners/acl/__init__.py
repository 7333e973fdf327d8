"""Adversarial continual learning: shared features that do not tell tasks apart, private ones for each task."""
