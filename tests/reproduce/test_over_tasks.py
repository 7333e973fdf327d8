from pathlib import Path

import numpy as np
import pytest

from gradcast.reproduce.cells import Cell
from gradcast.reproduce.outcome import Line
from gradcast.reproduce.over_tasks import LABELS, STREAM, over_tasks, values
from gradcast.reproduce.reproduce import Request, outcome, train
from tests.reproduce.scene import TEXT, experiment, trained, wanted

LABELLED = (
    'kind = "courses"'
    + TEXT[: TEXT.index("[[row]]")].replace("samples = 40", 'samples = 40\nscenario = "split"')
    + """
[[row]]
name = "one-hot"
label = "GEM + 1-PL"
signal.name = "one-hot"

[[row]]
name = "seen"
label = "GEM + 1-PL, all classes seen"
against = "one-hot"
signal.name = "one-hot"
signal.outputs = "seen"
"""
)


def line(name: str, found: list[Line]) -> Line:
    return next(own for own in found if own.item.name == name)


def test_numbers_are_those_of_steps_and_of_matrices() -> None:
    request = wanted(trained(), "curves")
    own = line("predicted", outcome(request, {}))
    assert own.item.setting is not None
    found = values(own)
    parts = Cell(own.item.setting).results(request.cells, steps=True)
    assert {"loss", "gain", "cosine", "seen", "all"} <= set(found)
    for place, seed in enumerate(request.seeds):
        result = parts[seed][1]
        matrix = result.matrices[result.seeds.index(seed)]
        assert found["all"][place, -1] == found["seen"][place, -1] == pytest.approx(100 * matrix[-1].mean())
        assert found["seen"][place, 0] == pytest.approx(100 * matrix[1, 0])
        assert np.array_equal(found["cosine"][place], result.courses["cosine"][result.seeds.index(seed)])


def test_rows_stand_below_their_host_with_accuracies_over_tasks_seen_and_over_all() -> None:
    request = wanted(trained(), "curves")
    found = [own for own in outcome(request, {}) if own.item.name in ("gem", "predicted")]
    figure = over_tasks(found, STREAM, base="base")
    assert figure is not None
    loss, accuracy, gain, cosine = figure.axes
    assert loss.get_title(loc="left") == "MLP GEM"
    assert [drawn.get_label() for drawn in loss.lines] == ["base", "+ predicted"]
    styles = {str(drawn.get_label()): drawn.get_linestyle() for drawn in accuracy.lines}
    assert styles == {"base": "-", "+ predicted": "-", "base, all tasks": "--", "+ predicted, all tasks": "--"}
    assert [drawn.get_label() for axis in (gain, cosine) for drawn in axis.lines] == ["+ predicted"] * 2
    assert gain.get_yscale() in ("log", "symlog")


def test_how_many_classes_a_label_is_chosen_among_is_told_and_accuracy_is_in_per_cent(tmp_path: Path) -> None:
    request = Request(experiment(LABELLED), [0], "float32", tmp_path)
    assert train(request, data=None, device="cpu", display=None) == {}
    figure = over_tasks(outcome(request, {}), LABELS, base="classes of the task")
    assert figure is not None
    cosine, accuracy = figure.axes
    assert [drawn.get_label() for drawn in accuracy.lines] == [
        "classes of the task (m = 5)",
        "all classes seen (m = 5 to 10)",
    ]
    assert accuracy.get_ylabel() == "accuracy of\npseudo labels (%)"
    shares = np.concatenate([np.asarray(drawn.get_ydata()) for drawn in accuracy.lines])
    assert shares.max() > 1
    assert np.abs(np.asarray(cosine.lines[0].get_ydata())).max() <= 1
