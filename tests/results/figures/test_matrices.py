from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from gradcast.results.figures.matrices import accuracy_matrices, accuracy_matrix, difference, difference_matrix
from gradcast.results.figures.style import save_png, svg
from tests.trained_runs import finished


def test_heat_maps_differ_with_the_matrices_and_repeat_exactly(tmp_path: Path) -> None:
    _, results = finished()
    save_png(accuracy_matrices(results), tmp_path / "a.png")
    save_png(accuracy_matrices(results), tmp_path / "b.png")
    save_png(accuracy_matrices(results[:1]), tmp_path / "one.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    picture, one = (np.asarray(Image.open(tmp_path / name).convert("RGB")) for name in ("a.png", "one.png"))
    assert picture.shape[1] > 1.8 * one.shape[1]
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


def test_a_panel_shows_the_mean_matrix_in_per_cent_and_all_rows_share_the_scale() -> None:
    _, results = finished()
    for result in results:
        before, after = accuracy_matrix(result).axes[0].get_images()
        shown = np.concatenate([before.get_array(), after.get_array()])
        np.testing.assert_allclose(shown, 100 * sum(result.matrices) / len(result.matrices))
        assert before.get_clim() == after.get_clim() == (0, 100)


def test_the_row_before_training_is_named() -> None:
    axis = accuracy_matrix(finished()[1][0]).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["before", "1", "2", "3"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["1", "2", "3"]


def test_differences_are_in_points_and_blue_is_better_and_none_transparent() -> None:
    base = finished()[1][0]
    better = replace(base, label="better", matrices=base.matrices + 0.05)
    np.testing.assert_allclose(difference(better, base), 5.0)
    _, image = difference_matrix(better, base, 5.0).axes[0].get_images()
    assert image.get_clim() == (-5, 5)
    worst, least, best = image.to_rgba(np.array([-5.0, 0.0, 5.0]))
    assert best[2] > best[0]
    assert worst[0] > worst[2]
    assert least[3] < 0.05
    assert best[3] == worst[3] == 1


def test_a_large_matrix_is_a_small_picture() -> None:
    rng = np.random.default_rng(0)
    large = replace(finished()[1][0], matrices=rng.random((3, 51, 50)))
    assert len(svg(accuracy_matrix(large))) < 40_000
