import numpy as np

from gradcast.results.feature_map import FeatureMap, View
from gradcast.results.figures.feature_maps import feature_panels, said
from gradcast.results.figures.style import svg

POINTS = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
PORTRAIT = FeatureMap(np.array([0, 1, 1]), View(POINTS, 0.8, 0.613), View(-POINTS, 0.5, 1.0))


def test_the_number_is_said_beside_chance() -> None:
    assert said(PORTRAIT, PORTRAIT.shared) == "task told 61 %, chance 50 %"


def test_every_row_has_shared_features_left_and_private_ones_right_and_tasks_their_colours() -> None:
    figure = feature_panels([("ACL $x$", PORTRAIT), ("ACL + noise", PORTRAIT)])
    assert len(figure.axes) == 4
    for axis, sign in zip(figure.axes, (1, -1, 1, -1), strict=True):
        first, second = axis.lines
        assert np.column_stack(first.get_data()).tolist() == (sign * POINTS[:1]).tolist()
        assert np.column_stack(second.get_data()).tolist() == (sign * POINTS[1:]).tolist()
        assert first.get_color() != second.get_color()
        assert first.get_marker() != second.get_marker()
    assert figure.axes[0].get_title(loc="left") == "ACL $x$\nshared features: task told 61 %, chance 50 %"
    assert figure.axes[3].get_title(loc="left") == "\nprivate features: task told 100 %, chance 50 %"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["task 1", "task 2"]
    assert "ACL $x$" in svg(figure)


def test_twenty_tasks_differ_in_colour_or_mark() -> None:
    tasks = np.arange(20)
    view = View(np.zeros((20, 2)), 1.0, 0.1)
    lines = feature_panels([("ACL", FeatureMap(tasks, view, view))]).axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 20
