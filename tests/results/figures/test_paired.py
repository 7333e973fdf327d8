from dataclasses import replace

import numpy as np
import pytest

from gradcast.results.figures.paired import paired_differences
from gradcast.results.figures.style import svg
from tests.compared import compare
from tests.trained_runs import finished


def test_a_dot_a_seed_and_the_interval_of_their_mean() -> None:
    base, row, _ = finished()[1]
    figure = paired_differences(base, [(1, row)])
    zero, dots, bar, mean = figure.axes[0].get_lines()
    differences = [100 * (a.acc - b.acc) for a, b in zip(row.measures, base.measures, strict=True)]
    assert list(zero.get_xdata()) == [0, 0]
    assert list(dots.get_xdata()) == pytest.approx(differences)
    assert mean.get_xdata()[0] == pytest.approx(np.mean(differences))
    found = compare(row.acc(), base.acc()).difference
    assert list(bar.get_xdata()) == pytest.approx([found.low, found.high])


def test_one_seed_has_a_dot_and_no_interval() -> None:
    base, row, _ = finished()[1]
    one, first = (replace(r, seeds=[0], measures=r.measures[:1]) for r in (row, base))
    figure = paired_differences(first, [(1, replace(one, paired=compare(one.acc(), first.acc())))])
    assert len(figure.axes[0].get_lines()) == 2
    assert "inf" not in "".join(text.get_text() for text in figure.axes[0].texts)


def test_identical_rows_and_odd_labels_can_be_drawn() -> None:
    base = finished()[1][0]
    same = replace(base, label="a $ <b> \x01", paired=compare(base.acc(), base.acc()))
    text = svg(paired_differences(base, [(1, same)]))
    assert "a $ &lt;b&gt;" in text
    assert "+0.00 (+0.00 to +0.00)" in text
