"""Where cells are trained, and in which portions."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cluster:
    """What ``--on`` and the options beside it say."""

    on: str  # "ray", or "ray://HOST:PORT"
    threads: int | None = None  # of each worker; None: one
    at_once: int | None = None  # seeds of a cell, at most; None: all of a row
