"""Datasets: readers of the publishers' own files, pools, cache, download."""
