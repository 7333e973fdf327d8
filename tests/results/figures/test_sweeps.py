from gradcast.results.figures.style import colour
from gradcast.results.figures.sweeps import MEASURES, Base, Sweep, sweep_panels
from gradcast.results.statistics import Interval


def interval(mean: float, half: float = 1.0, seeds: int = 5) -> Interval:
    return Interval(mean, mean - half, mean + half, seeds)


def test_trained_values_are_drawn_at_their_places_with_their_intervals() -> None:
    measured = [{"acc": interval(70.0)}, {}, {"acc": interval(72.0, 0.5)}]
    base = Base("GEM", {"acc": [68.0, 70.0, 69.0]})
    figure = sweep_panels({"p": [Sweep(["0", "0.5", "1"], measured, base)]})
    axis = figure.axes[0]
    line = axis.containers[0].lines[0]
    assert list(line.get_xdata()) == [0, 2]
    assert list(line.get_ydata()) == [70.0, 72.0]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "0.5", "1"]
    (bars,) = axis.containers[0].lines[2]
    assert [(low[1], high[1]) for low, high in bars.get_segments()] == [(69.0, 71.0), (71.5, 72.5)]
    band = axis.patches[0]
    assert (band.get_y(), band.get_height()) == (68.0, 2.0)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["GEM: mean and range of seeds"]


def test_gains_stand_over_zero_on_a_logarithmic_axis() -> None:
    measured = [{"gain": interval(1.0)}, {"gain": interval(2.0)}, {}]
    sweep = Sweep(["500", "1500", "6000"], measured, Base("no pool", {"gain": [0.0]}), logarithmic=True)
    figure = sweep_panels({"steps": [sweep]}, ["gain"])
    (axis,) = figure.axes
    assert (axis.get_xscale(), axis.get_ylabel()) == ("log", "gain in ACC (points)")
    assert list(axis.containers[0].lines[0].get_xdata()) == [500.0, 1500.0]
    figure.draw_without_rendering()
    ticks = zip(axis.get_xticks(), axis.get_xticklabels(), strict=True)
    assert [(at, text.get_text()) for at, text in ticks] == [(500, "500"), (1500, "1500"), (6000, "6000")]
    assert len(axis.get_xticks(minor=True)) == 0
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["no pool"]
    assert list(axis.lines[0].get_ydata()) == [0.0, 0.0]


def test_every_constant_has_a_panel_for_every_measure() -> None:
    alone = [Sweep(["0"], [{"acc": interval(70.0, seeds=1)}])]
    figure = sweep_panels({"p": [Sweep(["0"], [{}])], "alpha": alone})
    assert len(figure.axes) == 2 * len(MEASURES)
    assert figure.axes[3].get_title(loc="left") == "alpha"


def test_sweeps_share_a_plot_each_with_its_base_in_its_own_colour() -> None:
    some, other = {"acc": interval(70.0)}, {"acc": interval(86.0)}
    first = Sweep(["0", "1"], [some, some], Base("ResNet GEM", {"acc": [69.0, 71.0]}), "iCIFAR-100")
    second = Sweep(["0.5", "1"], [other, other], Base("GEM", {"acc": [85.0, 87.0]}), "MNIST-R")
    figure = sweep_panels({"p": [first, second], "alpha": [first]}, ["acc"])
    shared, alone = figure.axes
    assert shared.get_position().y0 == alone.get_position().y0  # side by side
    assert [text.get_text() for text in shared.get_xticklabels()] == ["0", "0.5", "1"]
    assert [list(own.lines[0].get_xdata()) for own in shared.containers] == [[0, 2], [1, 2]]
    bands = [(band.get_y(), band.get_facecolor()[:3]) for band in shared.patches]
    curves = [own.lines[0].get_color() for own in shared.containers]
    assert curves == [colour(1), colour(2)]
    assert [low for low, _ in bands] == [69.0, 85.0]
    assert bands[0][1] != bands[1][1]
    names = ["iCIFAR-100", "MNIST-R", "ResNet GEM: mean and range of seeds", "GEM: mean and range of seeds"]
    assert sorted(text.get_text() for text in figure.legends[0].get_texts()) == sorted(names)


def test_values_that_are_no_numbers_stay_in_their_order() -> None:
    axis = sweep_panels({"h": [Sweep(["linear", "64", "32"], [{}, {}, {}])]}).axes[0]
    assert [text.get_text() for text in axis.get_xticklabels()] == ["linear", "64", "32"]
