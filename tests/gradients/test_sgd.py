import copy

import pytest
import torch
from torch import Tensor

from gradcast.gradients.sgd import Sgd, along, descend

RATES = torch.tensor([0.1, 0.0, 0.03], dtype=torch.float64)


def tensors(seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(3, *shape, generator=generator, dtype=torch.float64) for shape in ((4, 2), (5,))]


def alone(steps: range, replica: int, weights: list[Tensor], momentum: float, decay: float) -> list[Tensor]:
    own = [weight[replica].clone().requires_grad_() for weight in weights]
    optimizer = torch.optim.SGD(own, lr=float(RATES[replica]), momentum=momentum, weight_decay=decay)
    for step in steps:
        for weight, gradient in zip(own, tensors(step), strict=True):
            weight.grad = gradient[replica]
        optimizer.step()
    return [weight.detach() for weight in own]


def test_its_state_goes_to_another_one() -> None:
    weights, first, second = tensors(100), Sgd(momentum=0.9), Sgd(momentum=0.9)
    first.step(weights, tensors(0), 0.1)
    first.lose(torch.tensor([True, False, False]))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    other = [weight.clone() for weight in weights]
    first.step(weights, tensors(1), 0.1)
    second.step(other, tensors(1), 0.1)
    assert all(torch.equal(one, two) for one, two in zip(weights, other, strict=True))


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.1), (0.9, 0.1)])
def test_every_replica_as_with_an_optimizer_of_its_own(momentum: float, decay: float) -> None:
    weights, start, sgd = tensors(100), tensors(100), Sgd(momentum=momentum, decay=decay)
    places = [weight.data_ptr() for weight in weights]
    for step in range(4):
        sgd.step(weights, tensors(step), RATES)
    for replica in range(3):
        expected = alone(range(4), replica, start, momentum, decay)
        for found, own in zip(weights, expected, strict=True):
            torch.testing.assert_close(found[replica], own, rtol=1e-12, atol=1e-14)
    assert all(torch.equal(found[1], first[1]) for found, first in zip(weights, start, strict=True))
    assert [weight.data_ptr() for weight in weights] == places


def test_one_rate_for_all_gives_the_bits_of_torchs_own() -> None:
    weights, start, sgd = tensors(100), tensors(100), Sgd()
    sgd.step(weights, tensors(0), 0.1)
    expected = alone(range(1), 0, start, 0.0, 0.0)
    assert all(torch.equal(found[0], own) for found, own in zip(weights, expected, strict=True))


def test_renewed_replicas_have_no_velocity_and_others_keep_theirs() -> None:
    weights, sgd = tensors(100), Sgd(momentum=0.9)
    for step in range(3):
        sgd.step(weights, tensors(step), RATES)
    middle = [weight.clone() for weight in weights]
    sgd.renew(torch.tensor([True, False, False]))
    sgd.step(weights, tensors(3), RATES)
    expected = alone(range(3, 4), 0, middle, 0.9, 0.0)
    going_on = alone(range(4), 2, tensors(100), 0.9, 0.0)
    for found, own, other in zip(weights, expected, going_on, strict=True):
        torch.testing.assert_close(found[0], own, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(found[2], other, rtol=1e-12, atol=1e-14)


def test_lost_weights_stand_still_until_the_optimizer_is_renewed() -> None:
    weights, sgd = tensors(100), Sgd(momentum=0.9, decay=0.1)
    sgd.lose(torch.tensor([True, False, False]))
    sgd.lose(torch.tensor([False, False, True]))
    sgd.step(weights, tensors(0), torch.full((3,), 0.1, dtype=torch.float64))
    assert [torch.equal(now, then) for now, then in zip(weights[0], tensors(100)[0], strict=True)] == [
        True,
        False,
        True,
    ]
    sgd.renew(torch.tensor([True, False, False]))
    before = weights[0].clone()
    sgd.step(weights, tensors(1), 0.1)
    assert [torch.equal(now, then) for now, then in zip(weights[0], before, strict=True)] == [False, False, True]


def test_a_rate_along_a_tensor() -> None:
    like = torch.zeros(3, 2, 4)
    assert along(0.5, like) == 0.5
    column = along(RATES, like)
    assert isinstance(column, Tensor)
    assert column.shape == (3, 1, 1)
    weight = torch.ones(3, 2)
    descend(weight, torch.ones(3, 2), torch.tensor([0.25, 0.0, 0.5]))
    assert weight.tolist() == [[0.75, 0.75], [1.0, 1.0], [0.5, 0.5]]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_resting_weights_keep_their_value_and_their_velocity(momentum: float) -> None:
    """As weights without a gradient in torch's optimizer."""
    weights, start, sgd = tensors(100), tensors(100), Sgd(momentum=momentum, decay=0.1)
    first, everything, nothing = torch.zeros(3, 4, 2).bool(), torch.ones(3, 5).bool(), torch.zeros(3, 5).bool()
    for step in range(4):
        sgd.rest([first, everything if step in (1, 2) else nothing])
        sgd.step(weights, tensors(step), RATES)
    for replica in range(3):
        own = [weight[replica].clone().requires_grad_() for weight in start]
        optimizer = torch.optim.SGD(own, lr=float(RATES[replica]), momentum=momentum, weight_decay=0.1)
        for step in range(4):
            own[0].grad, own[1].grad = (gradient[replica] for gradient in tensors(step))
            own[1].grad = None if step in (1, 2) else own[1].grad
            optimizer.step()
        for weight, expected in zip(weights, own, strict=True):
            torch.testing.assert_close(weight[replica], expected.detach())
