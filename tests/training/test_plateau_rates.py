import pytest
import torch

from gradcast.training.plateau_rates import PlateauRates


def test_a_sequence_by_hand() -> None:
    """Patience 2, factor 3, from 0.1 to not less than 0.02: one drop, and the second is the end."""
    plateau = PlateauRates(3, 0.1, smallest=0.02, patience=2)
    losses = [
        [1.0, 1.0, 1.0],
        [0.9, 1.0, 1.1],
        [0.8, 0.9, 1.0],  # equal is not better: the third replica drops
        [0.7, 0.9, float("nan")],
        [0.6, 0.9, 1.2],  # the second drops, the third ends
        [0.5, 0.8, 0.1],  # too late for the third
    ]
    seen = [plateau.observe(torch.tensor(row)) for row in losses]
    assert [row.improved.tolist() for row in seen] == [
        [True, True, True],
        [True, False, False],
        [True, True, False],
        [True, False, False],
        [True, False, False],
        [True, True, False],
    ]
    assert [row.dropped.tolist() for row in seen] == [
        [False, False, False],
        [False, False, False],
        [False, False, True],
        [False, False, False],
        [False, True, True],
        [False, False, False],
    ]
    assert plateau.going.tolist() == [True, True, False]
    torch.testing.assert_close(plateau.lr, torch.tensor([0.1, 0.1 / 3, 0.1 / 9], dtype=torch.float64))
    torch.testing.assert_close(plateau.best, torch.tensor([0.5, 0.8, 1.0], dtype=torch.float64))


@pytest.mark.parametrize(("lr", "epochs"), [(0.01, 45), (0.003, 40)])
def test_the_published_rates_end_after_so_many_epochs_without_a_better_one(lr: float, epochs: int) -> None:
    plateau = PlateauRates(1, lr)
    plateau.observe(torch.zeros(1))
    count = 0
    while plateau.going.any():
        plateau.observe(torch.ones(1))
        count += 1
    assert count == epochs


def test_replicas_that_are_not_shown_do_not_change() -> None:
    plateau = PlateauRates(2, 0.1, patience=1)
    for _ in range(3):
        plateau.observe(torch.ones(2), torch.tensor([True, False]))
    assert plateau.best.tolist() == [1.0, float("inf")]
    torch.testing.assert_close(plateau.lr, torch.tensor([0.1 / 9, 0.1], dtype=torch.float64))


def test_a_new_task_begins_as_the_first() -> None:
    plateau = PlateauRates(2, 0.1, smallest=0.09, patience=1)
    for _ in range(2):
        plateau.observe(torch.ones(2))
    plateau.lower(torch.tensor([True, False]), 10)
    assert not plateau.going.any()
    plateau.begin()
    assert plateau.going.all()
    assert plateau.rates(torch.zeros(1)).tolist() == pytest.approx([0.1, 0.1])
    assert plateau.rates(torch.zeros(1)).dtype == torch.float32


def test_a_restart_takes_the_initial_rate_and_keeps_best_loss_and_patience() -> None:
    plateau = PlateauRates(2, 0.1, patience=1)
    for _ in range(3):
        plateau.observe(torch.ones(2))
    plateau.restart(torch.tensor([True, False]), 10)
    torch.testing.assert_close(plateau.lr, torch.tensor([0.01, 0.1 / 9], dtype=torch.float64))
    assert plateau.best.tolist() == [1.0, 1.0]
    assert plateau.observe(torch.ones(2)).dropped.tolist() == [True, True]


def test_a_replica_that_is_named_may_improve_after_its_last_drop_and_keeps_that_rate() -> None:
    plateau, named = PlateauRates(1, 0.1, smallest=0.05, patience=1), torch.tensor([True])
    plateau.observe(torch.ones(1), named)
    assert plateau.observe(torch.ones(1), named).dropped.tolist() == [True]
    assert plateau.going.tolist() == [False]
    later = [plateau.observe(torch.tensor([loss]), named) for loss in (2.0, 0.5, 2.0)]
    assert [bool(seen.improved) for seen in later] == [False, True, False]
    assert not any(bool(seen.dropped) for seen in later)
    torch.testing.assert_close(plateau.lr, torch.tensor([0.1 / 3], dtype=torch.float64))
