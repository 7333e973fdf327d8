import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gradcast.results.measures import measure

MATRIX = np.array(
    [
        [0.10, 0.20, 0.30],  # before training
        [0.90, 0.30, 0.20],
        [0.95, 0.80, 0.50],
        [0.70, 0.60, 0.90],
    ]
)


def test_a_hand_made_matrix_in_both_conventions() -> None:
    found = measure(MATRIX)
    assert found.acc == pytest.approx((0.70 + 0.60 + 0.90) / 3)
    assert found.bwt == pytest.approx(((0.70 - 0.90) + (0.60 - 0.80)) / 2)
    assert found.bwt_ref == pytest.approx(((0.70 - 0.90) + (0.60 - 0.80) + 0) / 3)
    assert found.fwt == pytest.approx(((0.30 - 0.20) + (0.50 - 0.30)) / 2)
    assert found.fwt_ref == pytest.approx((0 + (0.30 - 0.20) + (0.50 - 0.30)) / 3)
    assert found.learning_accuracy == pytest.approx((0.90 + 0.80 + 0.90) / 3)
    assert found.forgetting == pytest.approx(((0.95 - 0.70) + (0.80 - 0.60)) / 2)


def test_a_single_task_has_no_transfer() -> None:
    found = measure(np.array([[0.1], [0.8]]))
    assert (found.acc, found.learning_accuracy) == (0.8, 0.8)
    assert (found.bwt, found.fwt, found.bwt_ref, found.fwt_ref, found.forgetting) == (0, 0, 0, 0, 0)


def test_a_matrix_without_the_row_before_training_is_refused() -> None:
    with pytest.raises(ValueError, match="need 4 rows"):
        measure(MATRIX[1:])


@given(arrays(np.float64, (6, 5), elements=st.floats(0, 1)))
def test_relations_between_measures(matrix: np.ndarray) -> None:
    found = measure(matrix)
    assert found.bwt_ref == pytest.approx(found.bwt * 4 / 5)
    assert found.fwt_ref == pytest.approx(found.fwt * 4 / 5)
    assert (
        found.forgetting >= -found.bwt - 1e-12
    )  # the best time is never worse than the end of the task's own training
    assert found.acc == pytest.approx(found.learning_accuracy + found.bwt_ref)
