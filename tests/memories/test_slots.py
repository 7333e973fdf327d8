from dataclasses import replace

import numpy as np
import torch

from gradcast.memories.slots import Slots
from tests.memories.test_reservoir import numbered


def test_images_labels_and_tasks_go_where_they_are_told() -> None:
    places = Slots(3)
    places.put(numbered(5, 2, task=4), torch.tensor([[2, 0], [1, 3]]))
    found = places.take([np.array([2, 0]), np.array([1, 1])])
    assert found.y.tolist() == [[5, 6], [5, 5]]
    assert torch.equal(found.x.squeeze(-1), found.y.double())
    assert found.tasks.unique().tolist() == [4]


def test_what_is_taken_keeps_its_place_while_it_is_as_much() -> None:
    places = Slots(4)
    places.put(numbered(0, 4), torch.arange(4).expand(2, -1))
    first = places.take([np.array([0, 1])] * 2)
    again = places.take([np.array([3, 2])] * 2)
    assert again.x.data_ptr() == first.x.data_ptr()
    assert first.y.tolist() == [[3, 2]] * 2
    more = places.take([np.array([0, 1, 2])] * 2)
    assert more.y.tolist() == [[0, 1, 2]] * 2
    assert first.y.tolist() == [[3, 2]] * 2


def test_the_first_places_move_to_others() -> None:
    places, other = Slots(4), Slots(4)
    assert places.first(2) == {}
    places.put(numbered(0, 2), torch.arange(2).expand(2, -1))
    other.fill(places.first(2))
    assert other.take([np.arange(4)] * 2).y.tolist() == [[0, 1, 0, 0]] * 2
    other.fill({})
    assert other.first(2) == {}


def test_fields_come_back_by_their_names_and_may_be_written_alone() -> None:
    places = Slots(3)
    places.put(numbered(5, 2), torch.tensor([[2, 0], [1, 3]]), {"age": torch.tensor([[1, 2], [3, 4]])})
    assert places.take([np.array([2, 0]), np.array([1, 1])]).fields["age"].tolist() == [[1, 2], [3, 3]]
    places.update(torch.tensor([[0], [1]]), {"age": torch.tensor([[7], [8]])})
    found = places.take([np.array([2, 0]), np.array([1, 1])])
    assert found.fields["age"].tolist() == [[1, 7], [8, 8]]
    assert found.y.tolist() == [[5, 6], [5, 5]]
    assert numbered(5, 2).tasks is None


def test_images_of_several_tasks_keep_their_own() -> None:
    places, batch = Slots(3), numbered(5, 2, task=4)
    places.put(replace(batch, tasks=torch.tensor([[0, 4], [1, 4]])), torch.tensor([[0, 1], [0, 1]]))
    assert places.take([np.array([0, 1])] * 2).tasks.tolist() == [[0, 4], [1, 4]]
