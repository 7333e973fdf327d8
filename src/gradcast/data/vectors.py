"""Feature vectors: rows of numbers in place of images, kept as they are in float32."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from gradcast.data.images import CHUNK, Vectors
from gradcast.errors import GradcastError

EXACT = 2**24  # whole numbers up to here are the same in float32


def vectors(x: np.ndarray, what: str) -> Vectors:
    """An array N x D as float32; nothing is scaled or rounded to bytes."""
    if not x.size:
        raise GradcastError(f"{what} is empty; give at least one row of numbers")
    if x.dtype.kind not in "fiu":
        raise GradcastError(f"{what} holds {x.dtype}; feature vectors are rows of real or whole numbers")
    if x.dtype.kind in "iu" and (x.min() < -EXACT or x.max() > EXACT):
        raise GradcastError(f"{what} holds whole numbers beyond {EXACT:,}, which float32 would change; scale them")
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(x, dtype=np.float32)
    if not np.isfinite(found).all():
        raise GradcastError(f"{what} holds numbers that are not finite in float32; remove those rows, or scale them")
    return found


def mean_and_deviation(
    parts: Sequence[Vectors],
) -> tuple[Float64[np.ndarray, " d"], Float64[np.ndarray, " d"]]:
    """Mean and standard deviation of every number over all rows; the deviation of a constant is 1."""
    count = sum(map(len, parts))
    chunks = [part[start : start + CHUNK] for part in parts for start in range(0, len(part), CHUNK)]
    mean = sum((chunk.sum(0, dtype=np.float64) for chunk in chunks), np.zeros(parts[0].shape[1])) / count
    squares = sum((np.square(chunk - mean).sum(0) for chunk in chunks), np.zeros_like(mean))  # about the mean: exact
    lowest, highest = (np.stack([pick(part, 0) for part in parts]) for pick in (np.min, np.max))
    constant = lowest.min(0) == highest.max(0)  # rounding of the mean would leave it a tiny deviation
    return mean, np.where(constant, 1.0, np.sqrt(squares / count))
