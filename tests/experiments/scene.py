"""A small experiment on embedded data, with everything an experiment may have."""

import tomllib

from gradcast.experiments.experiment import Experiment, read

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
needs = "EWC"
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
