import numpy as np
import pytest
import torch

from gradcast.traces import Worst


def test_the_largest_difference_beside_the_largest_number_is_kept_with_its_place() -> None:
    worst = Worst()
    worst.add(torch.tensor([1.0, 2.0]), None, "not recorded")
    worst.add(torch.tensor([1.0, 2.2]), np.array([1.0, 2.0]), "first")
    worst.add(torch.tensor([4.1]), np.array([4.0]), "second")
    assert worst.where == "first"
    assert worst.difference == pytest.approx(0.1)
    worst.add(torch.tensor([float("nan")]), np.array([1.0]), "third")
    assert (worst.difference, worst.where) == (float("inf"), "third")


def test_other_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="3 numbers recorded for it, the network has 2"):
        Worst().add(torch.zeros(2), np.zeros(3), "it")
