"""What decides the result of a seed: the key under which it is found again, whichever run trained it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from gradcast.devices import Arithmetic
from gradcast.specs.controls import pools_used
from gradcast.specs.spec import Setting

RESULTS = 5  # raised when the same settings, data and seeds train to other numbers
ON_NAN = "on_nan"  # a fact where steps may be undone


@dataclass(frozen=True)
class CellKey:
    """A cell: a setting, an arithmetic, and all data and code that it was trained with."""

    name: str  # in words, and a digest of the facts
    facts: dict[str, object]


def cell_key(setting: Setting, dtype: Arithmetic, content: Mapping[str, str], *, skips: bool = False) -> CellKey:
    """The key of a row's seeds; ``content`` has digests of its data, weights and code of others.

    Paths of data decide nothing that their digests do not. ``skips``: steps that are not finite are undone.
    """
    facts: dict[str, object] = {"setting": _without_paths(used_tables(setting)), "dtype": dtype}
    facts |= {"content": dict(sorted(content.items())), "results": RESULTS}
    facts |= {ON_NAN: "skip"} if skips else {}
    return CellKey(f"{in_a_word(setting)}-{digest(facts)}", facts)


def in_a_word(setting: Setting) -> str:
    """Source, learner and signals."""
    signals = "-".join(signal.name for signal in setting.signal)
    return f"{setting.stream.source}-{setting.learner.name}-{signals}"


def used_tables(setting: Setting) -> dict[str, object]:
    """The tables that decide something: without a signal the policy does not, without a head start the pool neither."""
    unused = set() if setting.signals else {"policy"}
    unused |= set() if setting.head_start.steps else {"head_start"}
    unused |= set() if pools_used(setting) else {"pool"}
    return {table: value for table, value in setting.model_dump().items() if table not in unused}


def digest(facts: object) -> str:
    """A short name for facts that JSON can hold, in whatever order they are told."""
    return hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=6).hexdigest()


def _without_paths(tables: Mapping[str, object]) -> dict[str, object]:
    return {name: _pathless(table) if name in ("stream", "pool") else table for name, table in tables.items()}


def _pathless(table: object) -> object:
    if isinstance(table, list):
        return [_pathless(each) for each in table]
    assert isinstance(table, dict)
    return {key: value for key, value in table.items() if key != "path"}
