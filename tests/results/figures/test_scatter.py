import math

import pytest
from scipy import stats

from gradcast.results.figures.scatter import Cloud, correlation, said, scatter_panels

CLOUDS = [Cloud("1-PL", [0.1, 0.2], [60.0, 66.0]), Cloud("P-PL", [0.5], [61.0])]


def test_the_correlation_is_pearsons_over_all_points() -> None:
    found, count = correlation(CLOUDS)
    assert found == pytest.approx(stats.pearsonr([0.1, 0.2, 0.5], [60.0, 66.0, 61.0]).statistic)
    assert count == 3
    unknown = Cloud("unknown", [math.nan, 0.3], [60.0, math.nan])
    assert correlation([*CLOUDS, unknown]) == (found, count)


@pytest.mark.parametrize("clouds", [[], CLOUDS[:1], [Cloud("same", [1, 1, 1], [1, 2, 3])]])
def test_too_few_points_or_no_spread_have_none(clouds: list[Cloud]) -> None:
    assert math.isnan(correlation(clouds)[0])
    assert said(clouds).startswith("r is not defined, n = ")


def test_panels_show_every_seed() -> None:
    figure = scatter_panels([("pseudo labels", CLOUDS), ("predicted", [])], "cosine", "ACC (%)")
    left, right = figure.axes
    assert [list(line.get_xdata()) for line in left.lines[:2]] == [[0.1, 0.2], [0.5]]
    assert left.get_title(loc="left") == f"pseudo labels: {said(CLOUDS)}"
    assert right.get_title(loc="left") == "predicted: r is not defined, n = 0"


def test_a_straight_line_is_fitted_to_all_points_of_a_panel() -> None:
    two = [Cloud("1-PL", [0.1, 0.5], [60.0, 66.0]), Cloud("P-PL", [0.5, math.nan], [61.0, 70.0])]
    fitted, unfit = scatter_panels([("three places", CLOUDS), ("two places", two)], "cosine", "ACC (%)").axes
    line = fitted.lines[-1]
    expected = stats.linregress([0.1, 0.2, 0.5], [60.0, 66.0, 61.0])
    assert list(line.get_xdata()) == [0.1, 0.5]
    assert list(line.get_ydata()) == pytest.approx([expected.intercept + expected.slope * x for x in (0.1, 0.5)])
    assert len(unfit.lines) == 2
