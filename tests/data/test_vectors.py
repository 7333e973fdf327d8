import re

import numpy as np
import pytest

from gradcast.data.own_images import own_data
from gradcast.data.vectors import EXACT, mean_and_deviation, vectors
from tests.data.hostile import refusal

ROWS = np.random.default_rng(0).normal(3, 20, (50, 4))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int16, np.uint8])
def test_numbers_are_kept_and_not_scaled(dtype: type) -> None:
    given = np.abs(ROWS).astype(dtype)
    found = vectors(given, "x")
    assert found.dtype == np.float32
    assert np.array_equal(found, given.astype(np.float32))


def test_two_axes_are_vectors_in_a_source() -> None:
    y = np.arange(50) % 3
    source = own_data(ROWS, y, ROWS[:9], y[:9])
    assert source.shape == (4,)
    assert np.array_equal(source.train.x, ROWS.astype(np.float32))
    assert source.content != own_data(ROWS + 1, y, ROWS[:9], y[:9]).content


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (ROWS[:0], "x is empty; give at least one row of numbers"),
        (ROWS[:, :0], "x is empty"),
        (ROWS.astype(str), "x holds <U.*; feature vectors are rows of real or whole numbers"),
        (ROWS > 0, "x holds bool; feature vectors are"),
        (ROWS.astype(complex), "x holds complex128"),
        (np.where(ROWS > 30, np.nan, ROWS), "x holds numbers that are not finite in float32; remove those rows"),
        (ROWS * 1e60, "x holds numbers that are not finite in float32"),
        (np.full((2, 2), EXACT + 1), "x holds whole numbers beyond 16,777,216, which float32 would change; scale them"),
    ],
)
def test_what_is_no_vector_is_refused(x: np.ndarray, message: str) -> None:
    assert re.search(message, refusal(vectors, x, "x"))


def test_mean_and_deviation_over_several_arrays() -> None:
    far = vectors(ROWS + 1e4, "x")  # squares alone would lose the deviation
    far[:, 1] = 0.1
    mean, deviation = mean_and_deviation([far[:20], far[20:]])
    assert np.allclose(mean, far.mean(0, dtype=np.float64), rtol=1e-12)
    expected = far.astype(np.float64).std(0)
    assert np.allclose(deviation[[0, 2, 3]], expected[[0, 2, 3]], rtol=1e-9)
    assert deviation[1] == 1.0
