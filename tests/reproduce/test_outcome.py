from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gradcast.reproduce import outcome
from gradcast.reproduce.experiment import Experiment
from gradcast.reproduce.outcome import Line, lines
from gradcast.reproduce.trained import Trained
from gradcast.results.measures import Measures
from tests.reproduce.scene import TEXT, experiment

ACC = {"gem": [0.70, 0.72, 0.71], "predicted": [0.71, 0.72, 0.735]}


def found(
    monkeypatch: pytest.MonkeyPatch,
    accuracy: dict[str, list[float]],
    own: Experiment | None = None,
    *,
    scheduled: bool = False,
) -> dict[str, Line]:
    """The table that these accuracies of the seeds 0, 1, ... would make."""

    def trained(item: object, *_: object) -> Trained | None:
        values = accuracy.get(item.name)  # type: ignore[attr-defined]
        if values is None:
            return None
        measures = {seed: Measures(acc, 0.1, 0.2, 0.05, 0.15, 0.8, 0.0) for seed, acc in enumerate(values)}
        return Trained(measures, {"milliseconds": [1.0, 2.0]}, scheduled=scheduled)

    monkeypatch.setattr(outcome, "trained", trained)
    return {line.item.name: line for line in lines(own or experiment(), [0, 1, 2], "float32", Path("none"))}


def test_published_ours_and_the_paired_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    line = found(monkeypatch, ACC)["predicted"]
    assert line.published_gain == 2.0
    assert line.ours["acc"].mean == pytest.approx(72.1667, abs=1e-4)
    assert line.ours["bwt"].mean == pytest.approx(0.05)  # divided by T, as published
    assert line.ours["fwt"].mean == pytest.approx(0.15)
    assert line.ours["milliseconds"].mean == 1.5
    assert line.paired is not None
    assert line.paired.difference.mean == pytest.approx(3.5 / 3)
    assert line.paired.t_test == pytest.approx(stats.ttest_rel(ACC["predicted"], ACC["gem"]).pvalue)


TEN = [0.70, 0.72, 0.71, 0.69, 0.73, 0.705, 0.715, 0.725, 0.695, 0.70]
GAINS = [0.010, 0.011, 0.012, 0.013, 0.014, 0.015, 0.016, 0.017, 0.018, 0.019]
BETTER = [base + gain for base, gain in zip(TEN, GAINS, strict=True)]
CONTROL = """
[[row]]
name = "noise"
label = "GEM + noise"
against = "gem"
signal.name = "noise"

[[row]]
name = "frozen"
label = "GEM + frozen h"
against = "gem"
signal.name = "predicted"
signal.directions = "frozen"
control = "predicted"
"""


def test_a_row_of_a_table_must_beat_its_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    own = experiment(TEXT.replace("[[sweep]]", f"{CONTROL}\n[[sweep]]", 1))
    rows = {"gem": TEN, "predicted": BETTER}
    told = [
        found(monkeypatch, rows, own),
        found(monkeypatch, rows | {"noise": TEN, "frozen": BETTER}, own),
        found(monkeypatch, rows | {"noise": TEN, "frozen": TEN}, own),
    ]
    verdicts = [table["predicted"].paired.verdict for table in told if table["predicted"].paired]
    assert verdicts[0].startswith("open: control not finished: GEM + noise, GEM + frozen h (")
    assert verdicts[1].startswith("no more than its control GEM + frozen h (+0.0 points beyond it")
    assert verdicts[2].startswith("helps by 1.4 points")
    last = told[2]["noise"].paired
    assert last is not None
    assert (last.kind, last.family, last.wilcoxon_holm) == ("no effect", 1, None)  # identical to its base
    assert told[1]["frozen"].paired.kind == "control"  # type: ignore[union-attr]


def test_tables_of_many_epochs_have_the_population_deviation_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    line = found(monkeypatch, ACC, scheduled=True)["gem"]
    assert line.ours["deviation"].mean == pytest.approx((2 / 3) ** 0.5)  # of 70, 72 and 71, divided by three
    assert "fwt" not in line.ours
    assert "deviation" not in found(monkeypatch, ACC)["gem"].ours
    assert "deviation" not in found(monkeypatch, {"gem": [0.7]}, scheduled=True)["gem"].ours


def test_a_gain_of_chance_is_noise_19_times_in_20() -> None:
    draw = np.random.default_rng(0)
    kinds = []
    for _ in range(4000):
        seeds, own = draw.normal(70, 1.0, 6), draw.normal(0, 0.4, (2, 6))  # what a seed brings, and what chance adds
        runs = seeds + own
        kinds.append(outcome.noise_of(float(runs[0, -1] - runs[1, -1]), runs[0, :5].tolist(), runs[1, :5].tolist()))
    assert kinds.count("pairs") / len(kinds) == pytest.approx(0.95, abs=0.015)
    assert outcome.noise_of(9.0, [70.0, 71.0, 72.0], [70.1, 71.2, 71.9]) == "beyond"
    assert outcome.noise_of(2.0, [70.0, 71.0, 72.0], [70.1, 71.2, 71.9]) == "seeds"


def test_two_seeds_differ_by_more_than_the_spread_of_seeds_once_in_20() -> None:
    draw = np.random.default_rng(1)
    beyond = 0
    for _ in range(4000):
        runs = draw.normal(70, 1.0, (2, 6))  # nothing is shared by pairs
        beyond += (
            outcome.noise_of(float(runs[0, -1] - runs[1, -1]), runs[0, :5].tolist(), runs[1, :5].tolist()) == "beyond"
        )
    assert beyond / 4000 < 0.05


def test_one_seed_knows_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    line = found(monkeypatch, {"gem": [0.7], "predicted": [0.8]})["predicted"]
    assert line.noise is None
    assert line.paired is not None


def test_what_is_not_there_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    table = found(monkeypatch, {"predicted": ACC["predicted"]})
    assert table["ewc"].state == "not reproduced: no EWC"
    assert table["gem"].state == "not run"
    assert table["predicted"].paired is None
    assert table["ewc"].published_gain == -20.0
    assert table["gem"].ours == {}


def test_figures_of_pretrained_networks_are_not_set_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    own = experiment()
    item = replace(own.item("predicted"), pretrained=True)
    changed = replace(own, items=tuple(item if other.name == item.name else other for other in own.items))
    line = found(monkeypatch, ACC, changed)["predicted"]
    assert line.published_gain is None
    assert line.published == {}


def test_json_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = found(monkeypatch, ACC)["predicted"].as_dict()
    assert facts["published"] == {"acc": 82.0}
    assert facts["against"] == "gem"
    assert facts["published_gain_is"] == "pairs"
