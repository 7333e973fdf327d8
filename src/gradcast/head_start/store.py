"""Head starts that are there already: in the cache, one entry a seed, for every row and run that asks for the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from gradcast.data.cache import Cache
from gradcast.runs.jsontext import parse_json, to_json
from gradcast.runs.safe_files import write_tensors

NAME = "head-start"
WEIGHTS, TOLD = "weights.safetensors", "told.json"
TIMES = ("seconds", "seeds_at_once")  # what differs from machine to machine
CURVES = ("loss", "nearest_neighbour")  # what is known of some steps


@dataclass(frozen=True)
class HeadStart:
    """One seed's weights before the output layer, and how its training went."""

    weights: dict[str, Tensor]
    told: dict[str, Any]


class Store:
    """An entry appears whole or not at all; a damaged one is named and made anew."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache

    def find(self, key: str) -> HeadStart | None:
        """The head start of this key, if it is there."""
        place = self.cache.find(NAME, {"head start": key}, whole=True)
        if place is None:
            return None
        try:
            told = parse_json((place / TOLD).read_text(encoding="utf-8"))
            if not isinstance(told, dict):
                raise ValueError("its curves are not a table")
            return HeadStart(load_file(place / WEIGHTS), told)
        except (SafetensorError, OSError, ValueError) as error:
            self.cache.damaged(place, error)
            return None

    def keep(self, key: str, weights: Mapping[str, Tensor], told: Mapping[str, object]) -> None:
        """Store the weights of a head start, and what is known of it."""

        def build(folder: Path) -> None:
            write_tensors(folder / WEIGHTS, {name: tensor.detach().cpu() for name, tensor in weights.items()})
            (folder / TOLD).write_text(to_json(json.loads(json.dumps(told))), encoding="utf-8")

        self.cache.put(NAME, {"head start": key}, build)
