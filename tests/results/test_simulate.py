"""Error rates of the rule; bounds lie about three standard errors of 1,000 runs from the table of docs/verdicts.md."""

from pathlib import Path

import pytest

from gradcast.results.simulate import RUNS, SCENES, Scene, rates, table

FEW = 1000


@pytest.mark.parametrize("noise", ["normal", "collapses"])
def test_false_gains_are_rare_and_rarer_behind_the_control(noise: str) -> None:
    found = rates(Scene("", 0.0, 0.0, 10, noise=noise), FEW)
    assert found.tested <= 0.021
    assert found.gated <= 0.005


def test_a_gain_that_the_control_has_too_is_not_the_rows() -> None:
    found = rates(Scene("", 1.0, 1.0, 10), FEW)
    assert found.tested >= 0.57  # nothing stops it without the control
    assert found.gated <= 0.038


@pytest.mark.parametrize(
    ("seeds", "sd", "tested", "gated"),
    [(10, 1.0, 0.620, 0.537), (15, 1.0, 0.876, 0.837), (20, 1.0, 0.968, 0.957), (10, 3.0, 0.075, 0.028)],
)
def test_power_is_what_the_documentation_says(seeds: int, sd: float, tested: float, gated: float) -> None:
    found = rates(Scene("", 1.0, 0.0, seeds, sd=sd), FEW)
    assert (found.tested, found.gated) == pytest.approx((tested, gated), abs=0.047)


def test_the_same_seed_gives_the_same_rates() -> None:
    assert rates(SCENES[0], 20, seed=1) == rates(SCENES[0], 20, seed=1)


def test_the_documentation_has_a_line_for_every_scene() -> None:
    head, rule, *lines = table(2)
    assert len(lines) == len(SCENES)
    assert {line.count("|") for line in (head, rule, *lines)} == {6}
    assert RUNS == 20_000
    page = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text(encoding="utf-8")
    assert all(f"| {scene.title} | {scene.seeds} | {scene.sd:g} |" in page for scene in SCENES)
