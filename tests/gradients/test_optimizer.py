import math

import pytest
import torch
from torch import Tensor

from gradcast.gradients.optimizer import AdamW, SeparateAdam, cosine_rate
from tests.replicas.passes.reference import numbers


def test_adamw_is_that_of_torch_for_every_replica() -> None:
    start, pulls = numbers(2, 3, 4), [numbers(2, 3, 4, seed=seed) for seed in range(1, 7)]
    ours, rates = start.clone(), torch.tensor([0.1, 0.02], dtype=torch.float64)
    optimizer = AdamW(decay=0.3)
    for pull in pulls:
        optimizer.step([ours], [pull], rates)
    for replica, rate in enumerate(rates.tolist()):
        weight = torch.nn.Parameter(start[replica].clone())
        theirs = torch.optim.AdamW([weight], lr=rate, weight_decay=0.3)
        for pull in pulls:
            weight.grad = pull[replica]
            theirs.step()
        torch.testing.assert_close(ours[replica], weight.detach(), rtol=1e-12, atol=1e-12)


def test_replicas_of_adam_take_steps_of_their_own() -> None:
    start, pulls = numbers(2, 3, 4), [numbers(2, 3, 4, seed=seed) for seed in range(1, 7)]
    going = [torch.tensor(each) for each in ([True, False], [True, True], [False, True])] * 2
    ours, optimizer = start.clone(), SeparateAdam()
    for pull, which in zip(pulls, going, strict=True):
        optimizer.step([ours], [torch.where(which.view(2, 1, 1), pull, torch.nan)], 0.1, which)
    for replica in range(2):
        weight = torch.nn.Parameter(start[replica].clone())
        theirs = torch.optim.Adam([weight], lr=0.1)
        for pull, which in zip(pulls, going, strict=True):
            if which[replica]:
                weight.grad = pull[replica]
                theirs.step()
        torch.testing.assert_close(ours[replica], weight.detach(), rtol=1e-12, atol=1e-12)


def test_factors_multiply_the_rate_weight_by_weight() -> None:
    whole, other, pull = numbers(2, 3), numbers(2, 3), numbers(2, 3, seed=1)
    AdamW().step([whole], [pull], 0.1, [torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)])
    for column, rate in enumerate((0.2, 0.1, 0.0)):
        alone = other[:, column].clone()
        AdamW().step([alone], [pull[:, column]], rate)
        assert torch.equal(whole[:, column], alone)


def test_it_goes_on_from_what_it_names() -> None:
    whole, half, rate = numbers(1, 4), numbers(1, 4), 0.1
    one, other = AdamW(), AdamW()
    for seed in (1, 2):
        for weight, optimizer in ((whole, one), (half, other)):
            optimizer.step([weight], [numbers(1, 4, seed=seed)], rate)
    fresh = AdamW()
    for name in AdamW.checkpointed:
        setattr(fresh, name, getattr(other, name))
    one.step([whole], [numbers(1, 4, seed=3)], rate)
    fresh.step([half], [numbers(1, 4, seed=3)], rate)
    assert torch.equal(whole, half)


def rates(steps: int, warm_up: float) -> Tensor:
    return torch.tensor([cosine_rate(step, steps=steps, warm_up=warm_up, peak=2.0) for step in range(steps)])


def test_the_rate_rises_in_a_straight_line_and_falls_by_half_a_cosine() -> None:
    found = rates(100, 0.1)
    assert found[:10].tolist() == pytest.approx([2.0 * (step + 1) / 10 for step in range(10)])
    expected = [1 + math.cos(math.pi * (step - 10) / 90) for step in range(10, 100)]
    assert found[10:].tolist() == pytest.approx(expected)
    assert rates(5, 0.0)[0] == 2.0
    assert rates(4, 1.0).tolist() == pytest.approx([0.5, 1.0, 1.5, 2.0])
