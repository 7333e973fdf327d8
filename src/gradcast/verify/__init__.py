"""Replays trajectories of the published reference code, and compares every weight."""
