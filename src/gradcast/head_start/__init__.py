"""Signals alone, on the pool alone, before the first task."""
