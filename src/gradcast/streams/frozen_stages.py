"""Streams and pools as the trained part of a network sees them: what its frozen stages give for the images."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from gradcast.data.images import Features, Pixels
from gradcast.devices import Place
from gradcast.streams.scale import Scale
from gradcast.streams.stream import Stream, Subset, Task

CHUNK = 1_024  # images on the device at once


def seen_stream(stream: Stream, frozen: nn.Module, place: Place) -> Stream:
    """The same tasks behind frozen stages.

    Where images are always shown as they are, their features are computed here, once. Augmented images, and tasks that
    move pixels, pass through the frozen stages whenever they are shown.
    """
    scale = replace(stream.scale, frozen=frozen)
    if stream.steps or any(task.origin is not None for task in stream.tasks):
        return replace(stream, scale=scale)
    known: dict[int, Features] = {}

    def subset(images: Subset) -> Subset:
        source = images.source
        if id(source) not in known:
            known[id(source)] = features(source, scale, place)
        return replace(images, source=known[id(source)])

    def all_of(tasks: Sequence[Task]) -> list[Task]:
        return [replace(task, train=subset(task.train), test=subset(task.test)) for task in tasks]

    own_tasks = stream.own_tasks
    return replace(
        stream,
        tasks=all_of(stream.tasks),
        own_tasks=None if own_tasks is None else lambda seed: all_of(own_tasks(seed)),
        scale=replace(scale, done=True),
    )


def features(images: Pixels | Features, scale: Scale, place: Place) -> Features:
    """What frozen stages give for all of these images, on the host."""
    parts = [
        scale(torch.from_numpy(np.array(images[start : start + CHUNK])).to(place.device), place.dtype)
        for start in range(0, len(images), CHUNK)
    ]
    return np.concatenate([part.cpu().numpy() for part in parts])
