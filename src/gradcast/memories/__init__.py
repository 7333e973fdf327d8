"""Memories: stored images of earlier steps, by different rules of what stays."""
