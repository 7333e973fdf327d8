import pytest
import torch

from gradcast.gradients.length import Length, Tau, unit
from tests.replicas.passes.reference import numbers


def test_rows_have_alpha_times_the_mean_labelled_length() -> None:
    length, dz = Length(0.5), numbers(2, 4, 3)
    tau = length.observe(dz)
    torch.testing.assert_close(tau, dz.norm(dim=-1).mean(-1))
    found = length.rescale(numbers(2, 7, 3, seed=1))
    torch.testing.assert_close(found.norm(dim=-1), 0.5 * tau.unsqueeze(1).expand(2, 7))


def test_per_sample_pairs_rows() -> None:
    length, dz = Length(2.0, "per_sample"), numbers(2, 4, 3)
    length.observe(dz)
    found = length.rescale(numbers(2, 4, 3, seed=1))
    torch.testing.assert_close(found.norm(dim=-1), 2 * dz.norm(dim=-1))
    with pytest.raises(ValueError, match="as many unlabelled as labelled images, got 3 and 4"):
        length.rescale(numbers(2, 3, 3))


def test_unlabelled_rows_may_take_the_length_of_the_batch_before() -> None:
    length, rows = Length(0.5, "previous"), numbers(2, 7, 3, seed=9)
    taus = [length.observe(numbers(2, 4, 3, seed=seed)) for seed in range(2)]
    torch.testing.assert_close(length.rescale(rows).norm(dim=-1), 0.5 * taus[1].unsqueeze(1).expand(2, 7))
    found = length.rescale_unlabelled(rows)
    torch.testing.assert_close(found.norm(dim=-1), 0.5 * taus[0].unsqueeze(1).expand(2, 7))


def test_the_first_batch_has_none_before_it() -> None:
    length, rows = Length(0.5, "previous"), numbers(2, 7, 3, seed=9)
    length.observe(numbers(2, 4, 3))
    assert not length.rescale_unlabelled(rows).any()
    assert length.rescale(rows).any()


def test_the_length_for_the_next_step_keeps_its_place_in_memory() -> None:
    length = Length(0.5, "previous")
    length.observe(numbers(2, 4, 3))
    kept = length.tau
    length.observe(numbers(2, 3, 3, seed=1))
    assert length.tau is kept


@pytest.mark.parametrize("of", ["batch", "per_sample"])
def test_other_lengths_are_the_same_for_both_kinds_of_rows(of: Tau) -> None:
    length, rows = Length(0.5, of), numbers(2, 4, 3, seed=9)
    for seed in range(2):
        length.observe(numbers(2, 4, 3, seed=seed))
    assert torch.equal(length.rescale_unlabelled(rows), length.rescale(rows))


def test_no_length_before_a_labelled_batch() -> None:
    with pytest.raises(RuntimeError, match="labelled batch first"):
        Length(1.0).rescale(numbers(1, 2, 3))


def test_zero_rows_stay_zero_with_a_finite_gradient() -> None:
    rows = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    found = unit(rows)
    assert found.tolist() == [[0.0, 0.0], pytest.approx([0.6, 0.8])]
    found.sum().backward()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()
