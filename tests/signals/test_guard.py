import torch

from gradcast.gradients.gradient import Gradient, PastGradients
from gradcast.signals.guard import guarded
from tests.replicas.passes.reference import numbers


def test_the_guarded_gradient_opposes_nobody() -> None:
    for seed in range(50):
        pseudo, gradient = Gradient(numbers(3, 12, seed=seed)), Gradient(numbers(3, 12, seed=seed + 100))
        past = [PastGradients(numbers(3, 4, 12, seed=seed + 200)), PastGradients(numbers(3, 2, 12, seed=seed + 300))]
        found = guarded(pseudo, gradient, past).flat
        rows = torch.cat([gradient.flat.unsqueeze(1), *(each.rows() for each in past)], dim=1)
        products = (rows * found.unsqueeze(1)).sum(-1)
        assert (products >= -1e-12).all()
        assert ((rows * pseudo.flat.unsqueeze(1)).sum(-1) < 0).any()  # there was something to guard against


def test_one_that_opposes_nobody_stays_as_it_is() -> None:
    gradient = Gradient(numbers(2, 5))
    pseudo = Gradient(3 * gradient.flat)
    assert torch.equal(guarded(pseudo, gradient, []).flat, pseudo.flat)


def test_against_one_gradient_the_opposing_part_is_taken_away() -> None:
    gradient, pseudo = Gradient(numbers(2, 5)), Gradient(-numbers(2, 5) + 0.1 * numbers(2, 5, seed=1))
    along = (pseudo.flat * gradient.flat).sum(1, keepdim=True) / gradient.flat.square().sum(1, keepdim=True)
    torch.testing.assert_close(guarded(pseudo, gradient, []).flat, pseudo.flat - along * gradient.flat)
