from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from gradcast.experiments import outcome
from gradcast.experiments.experiment import Experiment
from gradcast.experiments.outcome import Line, Trained, lines
from gradcast.measures import Measures
from tests.experiments.scene import experiment

ACC = {"gem": [0.70, 0.72, 0.71], "predicted": [0.71, 0.72, 0.735]}


def found(
    monkeypatch: pytest.MonkeyPatch, accuracy: dict[str, list[float]], own: Experiment | None = None
) -> dict[str, Line]:
    """The table that these accuracies of the seeds 0, 1, ... would make."""

    def trained(item: object, *_: object) -> Trained | None:
        values = accuracy.get(item.name)  # type: ignore[attr-defined]
        if values is None:
            return None
        measures = [Measures(acc, 0.1, 0.2, 0.05, 0.15, 0.8, 0.0) for acc in values]
        return Trained(list(range(len(values))), measures, [], {"milliseconds": 1.5})

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


@pytest.mark.parametrize("kind", ["pairs", "seeds", "beyond"])
def test_a_published_gain_is_noise_where_single_runs_differ_as_much(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variant, base = (100 * np.array(ACC[name]) for name in ("predicted", "gem"))
    prediction = stats.t.ppf(0.975, 2) * np.sqrt(1 + 1 / 3)
    paired = prediction * (variant - base).std(ddof=1)
    apart = prediction * np.sqrt(variant.var(ddof=1) + base.var(ddof=1))
    assert 2.0 < paired < apart
    gain = {"pairs": paired - 0.01, "seeds": apart - 0.01, "beyond": apart + 0.01}[kind]
    own = experiment()
    item = replace(own.item("predicted"), published={"acc": float(80.0 + gain)})
    changed = replace(own, items=tuple(item if other.name == item.name else other for other in own.items))
    assert found(monkeypatch, ACC, changed)["predicted"].noise == kind


def test_one_seed_knows_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    line = found(monkeypatch, {"gem": [0.7], "predicted": [0.8]})["predicted"]
    assert line.noise is None
    assert line.paired is not None


def test_what_is_not_there_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    table = found(monkeypatch, {"predicted": ACC["predicted"]})
    assert table["ewc"].state == "not yet: EWC"
    assert table["gem"].state == "not run"
    assert table["predicted"].paired is None
    assert table["ewc"].published_gain == -20.0
    assert table["gem"].ours == {}


def test_figures_of_pretrained_networks_are_not_set_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    own = experiment()
    item = replace(own.item("predicted"), pretrained=True)
    changed = replace(own, items=tuple(item if other.name == item.name else other for other in own.items))
    assert found(monkeypatch, ACC, changed)["predicted"].published_gain is None


def test_json_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = found(monkeypatch, ACC)["predicted"].as_dict()
    assert facts["published"] == {"acc": 82.0}
    assert facts["against"] == "gem"
    assert facts["published_gain_is"] == "pairs"
