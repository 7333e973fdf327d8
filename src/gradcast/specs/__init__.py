"""Specifications: what a run is asked to do, checked and turned into objects."""
