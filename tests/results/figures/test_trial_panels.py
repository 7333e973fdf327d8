from gradcast.results.figures.trial_panels import Dot, TunedKey, trial_panels

KEYS = [TunedKey("learner.lr", logarithmic=True), TunedKey("learner.name")]
DOTS = [
    Dot([0.01, "gem"], 50.0),
    Dot([0.1, "gem"], 70.0, best=True),
    Dot([0.01, "er"], 60.0),
    Dot([1.0, "er"], 10.0, stopped=True),
]


def test_a_panel_for_each_key_with_its_axis() -> None:
    numbers, words = trial_panels(KEYS, DOTS).axes
    assert numbers.get_xscale() == "log"
    assert [text.get_text() for text in words.get_xticklabels()] == ["gem", "er"]
    assert numbers.get_title(loc="left") == "learner.lr"


def test_kinds_of_trials_have_marks_and_values_that_come_back_a_line_of_means() -> None:
    lines = {line.get_label(): line for line in trial_panels(KEYS, DOTS).axes[0].get_lines()}
    assert set(lines) == {"finished", "stopped early", "best", "mean of a value"}
    assert list(lines["best"].get_ydata()) == [70.0]  # type: ignore[arg-type]
    assert list(lines["mean of a value"].get_ydata()) == [55.0, 70.0]  # type: ignore[arg-type]  # without the one that was stopped


def test_more_keys_than_columns_take_several_lines() -> None:
    keys = [TunedKey(str(number)) for number in range(4)]
    figure = trial_panels(keys, [Dot([1.0, 2.0, 3.0, 4.0], 1.0), Dot([2.0, 2.5, 3.5, 5.0], 2.0)])
    assert [axis.get_visible() for axis in figure.axes] == [True] * 4 + [False] * 2
