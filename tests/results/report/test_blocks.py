import numpy as np

from gradcast.results.figures.curves import Curve, stream_curves
from gradcast.results.report.blocks import Picture


def test_a_picture_is_drawn_once() -> None:
    picture = Picture("loss", "the loss", stream_curves("loss", [Curve("GEM", 0, np.ones((1, 2)))]))
    first = picture.svg
    picture.figure.clear()
    assert picture.svg is first
    assert ">GEM</text>" in first
