from pathlib import Path

import numpy as np
import pytest

from gradcast.verify.icarl_trace import RecordedDraws
from gradcast.verify.replay import replay


@pytest.mark.golden
@pytest.mark.parametrize("name", ["icarl_resnet", "icarl_resnet_released"])
def test_reference_trajectories(golden: Path, name: str) -> None:
    """Weights, distillation, exemplars, their outputs, running statistics and answers."""
    found = replay(golden / f"{name}.npz")
    assert found.steps == 12
    assert found.tolerance == 1e-6
    assert found.difference <= 1e-9


@pytest.mark.golden
@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("exemplars/4", "exemplars of class 4"),
        ("targets/1/2", "outputs of class 2 after task 1"),
        ("predicted/2", "answers in task 2"),
    ],
)
def test_a_difference_is_found_and_located(golden: Path, tmp_path: Path, key: str, where: str) -> None:
    arrays = dict(np.load(golden / "icarl_resnet.npz"))
    arrays[key] = arrays[key][::-1].copy()
    np.savez(tmp_path / "bad.npz", **arrays)
    found = replay(tmp_path / "bad.npz")
    assert (found.agrees, found.where) == (False, where)


def test_choices_have_to_exist() -> None:
    arrays = {"exemplar_index/000": np.zeros((0, 2), int), "exemplar_index/001": np.array([[1, 4]])}
    assert RecordedDraws(arrays).integers(np.array([2, 5])).tolist() == [1, 4]
    for high in ([2, 4], [2, 5, 5]):
        with pytest.raises(ValueError, match="do not fit"):
            RecordedDraws(arrays).integers(np.array(high))
