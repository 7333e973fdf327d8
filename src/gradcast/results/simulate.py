"""How often the rule of verdicts is right: its false claims and its power, simulated.

``python -m gradcast.results.simulate`` prints the table of docs/verdicts.md, in about three minutes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gradcast.results.sample import Sample
from gradcast.results.verdict import Pair, judge

Noise = Literal["normal", "collapses"]
RUNS = 20_000
COLLAPSES, DEPTH = 0.1, (-8.0, 4.0)  # how many seeds collapse, and how far: mean and standard deviation


@dataclass(frozen=True)
class Scene:
    """Two rows of a run that make a claim, the first with a control; gains in points, ``sd`` of paired differences."""

    title: str
    gain: float
    control: float  # gain of the control
    seeds: int
    sd: float = 1.0
    noise: Noise = "normal"


@dataclass(frozen=True)
class Rates:
    """Shares of runs whose first row is said to help: by the test alone, and behind its control."""

    tested: float
    gated: float


SCENES = [
    Scene("no effect", 0.0, 0.0, 10),
    Scene("no effect, some seeds collapse", 0.0, 0.0, 10, noise="collapses"),
    Scene("the control is as good", 1.0, 1.0, 10),
    *(Scene("a gain of 1 point", 1.0, 0.0, seeds) for seeds in (10, 15, 20)),
    *(Scene("a gain of 1 point", 1.0, 0.0, seeds, sd=3.0) for seeds in (10, 20, 90)),
]


def rates(scene: Scene, runs: int = RUNS, seed: int = 0) -> Rates:
    """How often the first row helps; all rows are compared with one base and share its noise."""
    tested = gated = 0
    for base, row, other, control in _draws(scene, runs, np.random.default_rng(seed)):
        against = Sample.of("base", base)
        controls = [Sample.of("control", [value + scene.control for value in control])]
        first = Pair(Sample.of("row", [value + scene.gain for value in row]), against, controls=controls)
        found = judge([first, Pair(Sample.of("other", other), against)])[0]
        tested += found.kind in ("helps", "no more than its control")
        gated += found.kind == "helps"
    return Rates(tested / runs, gated / runs)


def table(runs: int = RUNS) -> Iterator[str]:
    """In Markdown, a line at a time."""
    yield "| | seeds | sd of differences | helps, by the test alone | helps, behind the control |"
    yield "|---|---|---|---|---|"
    for scene in SCENES:
        found = rates(scene, runs)
        yield (
            f"| {scene.title} | {scene.seeds} | {scene.sd:g} | {100 * found.tested:.1f} % | {100 * found.gated:.1f} % |"
        )


def _draws(scene: Scene, runs: int, generator: np.random.Generator) -> Iterator[list[list[float]]]:
    """Rows of ACC less what is common: a difference of two has the standard deviation asked for."""
    for _ in range(runs):
        drawn = generator.normal(0.0, scene.sd / math.sqrt(2), (4, scene.seeds))
        if scene.noise == "collapses":
            lost = generator.random(drawn.shape) < COLLAPSES
            drawn = np.where(lost, generator.normal(*DEPTH, drawn.shape), drawn)
        yield drawn.tolist()


if __name__ == "__main__":
    for line in table():
        print(line)  # noqa: T201 -- a command
