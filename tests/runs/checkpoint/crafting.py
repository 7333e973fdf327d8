"""Checkpoints that somebody made: whole files with a digest that fits, and something else in them."""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradcast.runs.checkpoint import file
from gradcast.runs.checkpoint.file import Content

STRANGERS: tuple[Any, ...] = (
    None, -1, -(2**70), 2.5, "x", "../../mine", "/etc/passwd", "\x1b[2J", [], [1], {}, {"a": 1}, {"tensor": "none"},
    {"object": {}}, {"list": [1, 2]}, {"dict": [["a", 1]]}, {"dict": [1]}, {"numpy": {}}, {"state_dict": 3}, True,
)  # fmt: skip


def crafted(whole: Content, count: int, seed: int = 0) -> Iterator[Content]:
    """Copies of a checkpoint with one thing of another kind in each."""
    chance = random.Random(seed)
    for _ in range(count):
        facts, tensors = copy.deepcopy(dict(whole.facts)), dict(whole.tensors)
        if chance.random() < 0.3:
            _change_tensors(tensors, chance)
        else:
            _change_facts(facts, chance)
        yield Content(facts, tensors)


def put(folder: Path, content: Content) -> None:
    """The only checkpoint of a row."""
    position = content.facts.get("position")
    file.remove(folder)
    file.write(folder, position[2] if isinstance(position, list) and len(position) == 3 else 5, content)


def _change_facts(facts: dict[str, Any], chance: random.Random) -> None:
    """Replace, delete or add something anywhere; what says where it was made changes nothing."""
    places = [place for place in _places({name: own for name, own in facts.items() if name != "facts"}) if place]
    *path, last = chance.choice(places)
    owner: Any = facts
    for step in path:
        owner = owner[step]
    match chance.randrange(4):
        case 0:
            del owner[last]
        case 1 if isinstance(owner, dict):
            owner["../../mine"] = chance.choice(STRANGERS)
        case _:
            before = owner[last]
            others = [own for own in STRANGERS if type(own) is not type(before) and own is not None]
            owner[last] = chance.choice(others)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _places(entry, (*path, key))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _places(entry, (*path, index))


def _change_tensors(tensors: dict[str, Tensor], chance: random.Random) -> None:
    name = chance.choice(sorted(tensors))
    old = tensors[name]
    match chance.randrange(4):
        case 0:
            del tensors[name]
        case 1:
            tensors[name] = old.to(torch.float64 if old.dtype != torch.float64 else torch.int16)
        case 2:
            tensors[name] = torch.zeros(*old.shape, 2, dtype=old.dtype)
        case _:
            tensors[name] = torch.zeros(3, 1, 7, dtype=old.dtype)
