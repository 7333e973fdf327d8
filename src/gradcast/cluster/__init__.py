"""Cells on other processes, GPUs and machines, by Ray."""
