import torch
from torch.nn.functional import cosine_similarity

from gradcast.core import Unlabelled
from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.signals.agreement import compare
from tests.replicas.passes.reference import numbers


def test_lengths_and_angles() -> None:
    pseudo, gradient = Gradient(numbers(2, 7)), Gradient(numbers(2, 7, seed=1))
    rows = torch.stack([pseudo.flat, -pseudo.flat, gradient.flat], dim=1)
    unlabelled = Unlabelled(torch.zeros(2, 3, 1), torch.tensor([True, True]))
    found = compare(pseudo, gradient, [PastGradients(rows[:, :2]), PastGradients(rows[:, 2:])], unlabelled)
    torch.testing.assert_close(found["pseudo_ratio"], pseudo.flat.norm(dim=1) / gradient.flat.norm(dim=1))
    cosine = cosine_similarity(pseudo.flat, gradient.flat, dim=1)
    torch.testing.assert_close(found["agreement"], cosine)
    torch.testing.assert_close(found["memory_agreement"], (1 + (cosine > 0).double()) / 3)


def test_replicas_without_unlabelled_images_say_nothing() -> None:
    pseudo, gradient = Gradient(torch.zeros(2, 7)), Gradient(torch.ones(2, 7))
    found = compare(pseudo, gradient, [], Unlabelled(torch.zeros(2, 3, 1), torch.tensor([True, False])))
    assert set(found) == {"pseudo_ratio", "agreement"}
    assert [value[0].item() for value in found.values()] == [0, 0]
    assert all(value[1].isnan() for value in found.values())
