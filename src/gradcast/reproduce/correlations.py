"""Whether cosines go with accuracies: a cloud a row, a correlation for each group of them."""

from collections.abc import Sequence

import numpy as np

from gradcast.reproduce.outcome import Line
from gradcast.reproduce.reproduce import Request
from gradcast.reproduce.rows import results
from gradcast.results.figures.scatter import Cloud, correlation, said

Clouds = dict[str, list[Cloud]]  # by group


def clouds(wanted: Request, found: Sequence[Line]) -> Clouds:
    """Mean cosine over the run and final ACC of every seed; empty where the experiment is about something else."""
    groups: Clouds = {"pseudo labels": [], "predicted gradients": []}
    for row in results(found) if wanted.experiment.header.kind == "scatter" else ():
        if "cosine" in row.courses:
            group = "pseudo labels" if "label_accuracy" in row.courses else "predicted gradients"
            groups[group].append(Cloud(row.label, np.nanmean(row.courses["cosine"], 1).tolist(), row.acc()))
    return groups if any(groups.values()) else {}


def as_dict(groups: Clouds) -> dict[str, dict[str, float]]:
    """For JSON: Pearson's r of each group with n, its number of points."""
    return {group: dict(zip(("r", "n"), correlation(own), strict=True)) for group, own in groups.items()}


def in_words(groups: Clouds) -> list[str]:
    """A sentence a group."""
    return [f"Pearson's correlation of cosine and ACC, {group}: {said(own)}" for group, own in groups.items()]
