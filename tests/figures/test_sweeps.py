from gradcast.figures.sweeps import MEASURES, Sweep, sweep_panels
from gradcast.statistics import Interval


def interval(mean: float, half: float = 1.0, seeds: int = 5) -> Interval:
    return Interval(mean, mean - half, mean + half, seeds)


def test_trained_values_are_drawn_at_their_places_with_their_intervals() -> None:
    measured = [{"acc": interval(70.0)}, {}, {"acc": interval(72.0, 0.5)}]
    figure = sweep_panels([Sweep("p", ["0", "0.5", "1"], measured, {"acc": interval(69.0)})])
    axis = figure.axes[0]
    line = axis.containers[0].lines[0]
    assert list(line.get_xdata()) == [0, 2]
    assert list(line.get_ydata()) == [70.0, 72.0]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "0.5", "1"]
    (bars,) = axis.containers[0].lines[2]
    assert [(low[1], high[1]) for low, high in bars.get_segments()] == [(69.0, 71.0), (71.5, 72.5)]
    band = axis.patches[0]
    assert (band.get_y(), band.get_height()) == (68.0, 2.0)


def test_every_constant_has_a_panel_for_every_measure() -> None:
    figure = sweep_panels([Sweep("p", ["0"], [{}]), Sweep("alpha", ["0"], [{"acc": interval(70.0, seeds=1)}])])
    assert len(figure.axes) == 2 * len(MEASURES)
    assert figure.axes[3].get_title(loc="left") == "alpha"
