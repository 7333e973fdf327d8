import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gradcast.results.advice import advice
from gradcast.results.report.overview import _rounded, overview
from gradcast.results.report.read import Found, read_run
from gradcast.results.statistics import Interval, Shift
from tests.results.report.copies import copy_of_run, unfinish


def test_verdicts_advice_and_what_is_not_finished(tmp_path: Path) -> None:
    directory = copy_of_run(tmp_path / "a")
    unfinish(directory, "random", lines=2)
    run = read_run(directory.path)
    text = overview(Found(tmp_path, [run], ["b is left out: <why>"]), ["run-1"])
    paired = run.results[1].paired
    assert paired is not None
    assert paired.verdict.replace("-", "−") in text
    assert "Not finished yet</p><ul><li>GEM + random directions: 1 of 3 tasks" in text
    assert "b is left out: &lt;why&gt;" in text
    assert "No signal helped here" not in text  # the last one may
    assert 'href="#run-1"' not in text
    assert 'href="#x"' in overview(Found(tmp_path, [run, run], []), ["x", "y"])


def test_advice_is_given_when_all_is_finished(tmp_path: Path) -> None:
    run = read_run(copy_of_run(tmp_path / "a").path)
    text = overview(Found(tmp_path, [run], []), ["run-1"])
    expected = advice(run.spec, run.results, Path("a"))
    assert expected is not None
    assert f"{expected}</p>" in text
    assert "Not finished" not in text


def test_the_small_picture_shows_the_interval_on_a_common_scale(tmp_path: Path) -> None:
    run = read_run(copy_of_run(tmp_path / "a").path)
    intervals = [Interval(1.0, 0.0, 2.0, 3), Interval(-0.5, -1.0, 0.0, 3)]
    changed = [
        replace(own, paired=replace(own.paired, difference=found, shift=Shift(0.0, -math.inf, math.inf, 0.95, 3)))
        for own, found in zip(run.results[1:], intervals, strict=True)
        if own.paired is not None
    ]
    text = overview(Found(tmp_path, [replace(run, results=[run.results[0], *changed])], []), ["run-1"])
    bars = re.findall(r'<line x1="([\d.]+)" x2="([\d.]+)" [^>]*class="bar"', text)
    assert bars == [("60.0", "114.0"), ("33.0", "60.0")]  # the middle is zero, two points reach the end
    assert re.findall(r'<circle cx="([\d.]+)"', text) == ["87.0", "46.5"]


def test_every_row_has_its_accuracy_beside_its_verdict_and_the_base_the_scale(tmp_path: Path) -> None:
    run = read_run(copy_of_run(tmp_path / "a").path)
    text = overview(Found(tmp_path, [run], []), ["run-1"])
    shown = re.findall(r'<span class="value">([\d.]+)<span class="half"> ± ([\d.]+)</span>', text)
    accuracies = [own.over_seeds("acc") for own in run.results]
    assert shown == [(f"{100 * own.mean:.2f}", f"{100 * own.half:.2f}") for own in accuracies]
    assert f'<strong>{run.results[0].label}</strong> <span class="said">base</span>' in text
    low, zero, high = re.findall(r'text-anchor="middle">([^<]+)</text>', text)
    assert (low[0], zero, high[0]) == ("−", "0", "+")
    assert low[1:] == high[1:]


@pytest.mark.parametrize(
    ("span", "shown"), [(0.0, 1.0), (0.25, 0.3), (1.0, 1.0), (1.2, 2.0), (5.4, 6.0), (9.1, 10.0), (12.0, 20.0)]
)
def test_a_scale_ends_at_a_round_number(span: float, shown: float) -> None:
    assert _rounded(span) == pytest.approx(shown)
