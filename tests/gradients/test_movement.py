import pytest
import torch
from torch import nn

from gradcast.gradients.movement import Movement


def test_the_distance_of_each_replica_from_its_beginning_over_its_length_there() -> None:
    network = nn.ParameterList([torch.tensor([[3.0, 0.0], [1.0, 1.0]]), torch.tensor([[[4.0]], [[1.0]]])])
    movement = Movement(network)
    assert movement().tolist() == [0.0, 0.0]
    with torch.no_grad():
        network[0] += torch.tensor([[0.3, 0.0], [0.0, 0.0]])
        network[1] += torch.tensor([[[0.4]], [[0.6]]])
    assert movement().tolist() == pytest.approx([0.5 / 5, 0.6 / 3**0.5])
