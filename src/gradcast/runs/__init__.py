"""Runs: a specification trained into a directory that can be resumed."""
