"""Classes and their numbers of images in words, for a person to check before training."""

from collections.abc import Sequence

MOST = 20  # classes that are named


def in_words(classes: Sequence[str], train: Sequence[int], test: Sequence[int]) -> str:
    """Every class with its images to train and to test on; of many classes the first."""
    named = [f"{label} ({a:,} and {b:,})" for label, a, b in zip(classes, train, test, strict=True)][:MOST]
    more = "" if len(classes) <= MOST else f" and {len(classes) - MOST:,} more"
    return f"{len(classes):,} classes with images to train and to test on: {', '.join(named)}{more}"
