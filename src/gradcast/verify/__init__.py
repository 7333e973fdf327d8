"""Replay of reference trajectories."""
