import numpy as np
import pytest

from gradcast.results.figures.curves import Curve
from gradcast.results.figures.grids import Strip, curve_grid


def curve(*values: float) -> Curve:
    return Curve("h", 1, np.array([values], dtype=float))


def test_a_column_a_title_and_a_strip_a_number_on_one_axis() -> None:
    strips = [Strip("loss", [[curve(1, 2)], [curve(3, 4)]]), Strip("cosine", [[curve(0, 0.5)], []])]
    figure = curve_grid(["ResNet GEM", "$DCL$"], strips)
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["ResNet GEM", "$DCL$", "", ""]
    assert [axis.get_ylabel() for axis in figure.axes] == ["loss", "", "cosine", ""]
    assert [axis.get_xlabel() for axis in figure.axes] == ["", "", "task", "task"]
    left, right = figure.axes[:2]
    assert left.get_ylim() == right.get_ylim()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["h"]
    assert (strips[1].empty, Strip("gain", [[], []]).empty) == (False, True)


@pytest.mark.parametrize(
    ("values", "scale", "words"),
    [
        ((1e-6, 3e-4), "log", "gain\n(logarithmic)"),
        ((-1e-6, 3e-4), "symlog", "gain\n(logarithmic, linear\nwithin ±1e-6)"),
        ((0.0, 0.0), "linear", "gain\n(linear: all are zero)"),
        ((np.nan, 2e-5), "log", "gain\n(logarithmic)"),
    ],
)
def test_a_logarithmic_axis_says_what_it_does_with_what_is_not_positive(
    values: tuple[float, float], scale: str, words: str
) -> None:
    (left, right) = curve_grid(["a", "b"], [Strip("gain", [[curve(*values)], []], logarithmic=True)]).axes
    assert (left.get_yscale(), right.get_yscale()) == (scale, scale)
    assert left.get_ylabel() == words
    (line,) = left.lines
    assert len(line.get_ydata()) == np.isfinite(values).sum()  # nothing is left out
