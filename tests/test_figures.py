from pathlib import Path

import numpy as np
from PIL import Image

from gradcast.figures import accuracy_matrices, signal_courses
from tests.runs import finished


def test_heat_maps_differ_with_the_matrices_and_repeat_exactly(tmp_path: Path) -> None:
    _, results = finished()
    accuracy_matrices(results, tmp_path / "a.png")
    accuracy_matrices(results, tmp_path / "b.png")
    accuracy_matrices(results[:1], tmp_path / "one.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    picture, one = (np.asarray(Image.open(tmp_path / name).convert("RGB")) for name in ("a.png", "one.png"))
    assert picture.shape[1] > 1.8 * one.shape[1]
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


def test_courses_of_signals_are_drawn_where_there_are_any(tmp_path: Path) -> None:
    _, results = finished()
    assert signal_courses(results, tmp_path / "a.png")
    assert signal_courses(results, tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    picture = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50
    assert not signal_courses(results[:1], tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()
