"""What a head start alone is asked for: its options and ``--set``, as one checked setting of a specification."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gradcast.data.load import Shelf
from gradcast.errors import GradcastError
from gradcast.networks.registry import NETWORKS
from gradcast.specs.compatibility import contradiction
from gradcast.specs.spec import Setting
from gradcast.specs.table import nearest
from gradcast.specs.text import assign, validated
from gradcast.streams.own_pool import OwnPoolName
from gradcast.streams.pool_tables import POOLS

Raw = dict[str, Any]
PoolColour = Literal["rgb", "grey"]
PoolScale = Literal["unit", "cifar", "imagenet"]  # what stream.normalise offers without labelled images
TABLES = ("model", "head_start", "pool")  # of which --set changes keys
# Keys of a specification that are options here: nothing is said in two ways.
OPTIONS = {
    "stream.size": "--size",
    "stream.colour": "--colour",
    "stream.normalise": "--normalise",
    "head_start.steps": "--steps",
    "head_start.batch": "--batch",
    "model.name": "--model",
    "model.path": "--model",
    "pool.name": "--pool",
    "pool.path": "--pool",
}
# Keys that mean something in a run alone.
OF_A_RUN = {
    "head_start.pool": "there is one pool",
    "head_start.shared": "there is one seed",
    "head_start.probes": "there are no labels to look at the features with",
    "model.heads": "there are no tasks",
}
NAMED_POOLS = [name for name in POOLS if name not in ("folder", "python", *get_args(OwnPoolName))]
NAMED_NETWORKS = [name for name in NETWORKS.tables if name != "python"]


@dataclass(frozen=True)
class PretrainOptions:
    """What the caller asks for beside pool and network; ``settings`` change keys that have no option."""

    steps: int
    batch: int
    size: int
    colour: PoolColour
    normalise: PoolScale
    settings: tuple[str, ...] = ()

    def setting(self, pool: Raw, model: Raw | None) -> Setting:
        """The tables of a specification that say the same; without ``model`` the caller brings the network along."""
        for option, value, known in (
            ("--colour", self.colour, get_args(PoolColour)),
            ("--normalise", self.normalise, get_args(PoolScale)),
        ):
            if value not in known:
                raise GradcastError(f"{option} {value} needs labelled images; choose {' or '.join(known)}")
        if self.colour == "grey" and self.normalise != "unit":
            raise GradcastError(f"--normalise {self.normalise} is for colour images; set --normalise unit")
        raw: Raw = {
            "stream": {"size": self.size, "colour": self.colour, "normalise": self.normalise},
            "pool": pool,
            "model": model or {"name": "mlp"},
            "head_start": {"steps": self.steps, "batch": self.batch, "probes": 0},
        }
        for own in self.settings:
            _check_key(own.partition("=")[0].strip(), named=model is not None)
            raw = assign(raw, own)
        setting = validated(raw)
        if not setting.head_start.steps:
            raise GradcastError("--steps 0 trains nothing; give 1 or more")
        problem = contradiction(setting)
        if problem is not None:
            raise GradcastError(problem)
        return setting


def _check_key(key: str, *, named: bool) -> None:
    """Nothing that has an option, is of a whole run, or belongs to a network that is there already."""
    table = key.partition(".")[0]
    if key in OPTIONS:
        raise GradcastError(f"--set {key} has an option of its own: use {OPTIONS[key]}")
    if key in OF_A_RUN:
        raise GradcastError(f"--set {key} is of a whole run, and here {OF_A_RUN[key]}; leave it out")
    if table == "model" and not named:
        raise GradcastError(f"--set {key} is for networks by name; build your own network with the settings it needs")
    if key.isprintable() and table not in TABLES:
        raise GradcastError(
            f"--set {key} is no setting of a head start alone; give keys of {', '.join(TABLES)}, as in --set "
            "head_start.lr=0.1"
        )


def pool_table(pool: str, shelf: Shelf) -> Raw:
    """A pool by its name, or a folder or zip archive of images by its path."""
    if pool in NAMED_POOLS:
        return {"name": pool}
    if pool in get_args(OwnPoolName):
        raise GradcastError(f"the pool {pool!r} is images of a labelled stream, and there is none; name another pool")
    try:
        return {"name": "folder", "path": str(shelf.find(pool, "--pool"))}
    except GradcastError as error:
        raise GradcastError(f"{error}, or name a pool{nearest(pool, NAMED_POOLS)}") from None


def model_table(model: str) -> Raw:
    """A network by its name, or anybody's by its import path."""
    if ":" in model:
        return {"name": "python", "path": model}
    if model not in NAMED_NETWORKS:
        raise GradcastError(
            f"there is no network {model!r}{nearest(model, NAMED_NETWORKS)} (your own: --model module:Class)"
        )
    return {"name": model}


@contextmanager
def own_words() -> Iterator[None]:
    """Mistakes name the option where a specification would have a key."""
    try:
        yield
    except GradcastError as error:
        sentence = str(error)
        for key, option in OPTIONS.items():
            sentence = re.sub(rf"(?<!--set ){re.escape(key)}\b", option, sentence)
        raise type(error)(sentence) from None
