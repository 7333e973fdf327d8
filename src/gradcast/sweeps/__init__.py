"""Sweeps: settings tuned on images and seeds that are never reported, then the best against the base on fresh seeds."""
