"""A small experiment on embedded data, with everything an experiment may have."""

import tomllib
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from gradcast.reproduce.experiment import Experiment, read
from gradcast.reproduce.experiment_tables import Kind
from gradcast.reproduce.reproduce import Request, train

TEXT = """
id = "T1"
title = "Table: digits"
about = "Small."
seeds = 3
quick = ["stream.samples=20"]

[stream]
tasks = 2
samples = 40

[model]
name = "mlp"
hidden = [8]

[learner]
name = "gem"
memory = 8

[signal]
name = "none"

[policy]
p = 0.5

[pool]
name = "patches"
count = 20

[[row]]
name = "gem"
label = "GEM"
published = { acc = 80.0, bwt = 0.01, fwt = 0.5 }

[[row]]
name = "predicted"
label = "GEM + predicted"
against = "gem"
published = { acc = 82.0 }
signal.name = "predicted"
signal.alpha = 0.5

[[row]]
name = "ewc"
label = "EWC"
not_reproduced = "no EWC"
against = "gem"
published = { acc = 60.0 }

[[sweep]]
name = "p"
label = "p"
of = "predicted"
key = "policy.p"
values = [0.25, 1.0]
against = "gem"
published = [{ acc = 81.0 }, { acc = 83.5 }]

[[sweep]]
name = "base"
label = "base,"
key = "stream.ratio"
values = [0.5, 1.0]

[[sweep]]
name = "ratio"
label = "ratio"
of = "predicted"
key = "stream.ratio"
values = [0.5, 1.0]
against = "base"
"""


def experiment(text: str = TEXT) -> Experiment:
    return read(tomllib.loads(text))


ROWS = ["gem", "predicted", "p-0.25", "p-1"]


@cache
def trained() -> Path:
    """A folder where these rows are trained, two seeds together and the third alone; only to be looked at."""
    out = Path(mkdtemp())
    for seeds in ([0, 1], [2]):
        assert train(Request(experiment(), seeds, "float32", out, ROWS), data=None, device="cpu", display=None) == {}
    return out


def wanted(place: Path, kind: Kind = "table", *, quick: bool = False, text: str = TEXT) -> Request:
    """These rows as a figure of some kind."""
    own = experiment(text.replace('about = "Small."', f'about = "Small."\nkind = "{kind}"'))
    return Request(own, [0, 1, 2], "float32", place, ROWS, quick)
