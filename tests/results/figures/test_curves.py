from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradcast.results.figures.curves import Curve, courses, signal_courses, stream_curves
from gradcast.results.figures.style import save_png
from gradcast.results.history import HISTORY
from gradcast.results.statistics import interval
from tests.trained_runs import few_labels, finished


def test_courses_of_signals_are_drawn_where_there_are_any(tmp_path: Path) -> None:
    _, results = finished()
    for name in ("a.png", "b.png"):
        figure = signal_courses(results)
        assert figure is not None
        save_png(figure, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    picture = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50
    assert signal_courses(results[:1]) is None


def test_courses_keep_the_place_of_their_row() -> None:
    _, results = finished()
    (predicted, *_) = courses(results, "cosine")
    assert predicted.place == 1
    assert predicted.label == results[1].label


def test_a_curve_is_the_mean_of_the_seeds_and_its_band_the_interval_of_that_mean() -> None:
    values = np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan]])
    (axis,) = stream_curves("loss", [Curve("$x$", 1, values, finished=False)]).axes
    (line,) = axis.get_lines()
    assert line.get_xdata().tolist() == [1, 2]
    assert line.get_ydata().tolist() == [2.0, 2.0]
    assert line.get_linestyle() == "--"
    assert line.get_label() == "$x$ (so far)"
    (band,) = axis.collections
    corners = band.get_paths()[0].vertices
    own = interval([1.0, 3.0])
    assert {tuple(corner) for corner in corners.tolist()} >= {(1, own.low), (1, own.high), (2, 2)}


def test_a_label_that_looks_like_mathematics_is_shown_as_written() -> None:
    figure = stream_curves("loss", [Curve("$x$", 0, np.ones((1, 2)))])
    (text,) = figure.legends[0].get_texts()
    assert text.get_text() == "$x$"
    assert not text.get_parse_math()


def test_tests_stand_at_their_steps_in_a_frame_that_the_beginning_does_not_widen() -> None:
    values, steps = np.array([[90.0, *range(20, 1, -1)]]), 100 * np.arange(1, 21)
    (axis,) = stream_curves("test error", [Curve("MG", 1, values, steps=steps)]).axes
    assert axis.get_xlabel() == "step"
    (line,) = axis.get_lines()
    assert line.get_xdata().tolist() == steps.tolist()
    low, high = axis.get_ylim()
    assert (low, high) == pytest.approx((2 - 0.05 * 17, 19 + 0.05 * 17))
    assert axis.xaxis.get_major_formatter()(400_000, 0) == "400,000"
    (still,) = stream_curves("loss", [Curve("MG", 1, np.ones((1, 20)), steps=steps)]).axes
    assert still.get_ylim()[0] < 1 < still.get_ylim()[1]
    (stream,) = stream_curves("loss", [Curve("GEM", 1, values)]).axes
    assert stream.get_xlabel() == "task"
    assert stream.get_ylim()[1] > 90


def test_few_labels_have_a_panel_for_all_that_tests_tell() -> None:
    figure = signal_courses(few_labels()[1])
    assert figure is not None
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == [
        HISTORY[name] for name in ("test_error", "loss", "pseudo_accuracy", "signal_loss", "label_movement", "cosine")
    ]
    assert [len(axis.get_lines()) for axis in figure.axes] == [4, 4, 3, 2, 1, 1]


def test_a_dashed_curve_has_no_band_and_no_other_name() -> None:
    (axis,) = stream_curves("accuracy", [Curve("all tasks", 1, np.ones((2, 2)), dashed=True)]).axes
    (line,) = axis.get_lines()
    assert (line.get_linestyle(), line.get_label()) == ("--", "all tasks")
    assert not axis.collections


@pytest.mark.parametrize("values", [[66.2, 74.9, 70.1], [0.0013, 0.0074, 0.002], [-0.061, 0.033, 0.0]])
def test_ticks_are_even_numbers(values: list[float]) -> None:
    (axis,) = stream_curves("accuracy", [Curve("GEM", 0, np.array([values]))]).axes
    ticks = axis.get_yticks()
    step = ticks[1] - ticks[0]
    leading = step / 10 ** np.floor(np.log10(step) + 1e-9)
    assert any(leading == pytest.approx(digit) for digit in (1, 2, 5))
    assert np.allclose(np.diff(ticks), step)
