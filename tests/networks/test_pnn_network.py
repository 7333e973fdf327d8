from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, cross_entropy, max_pool2d

from gradcast.networks.pnn_network import CHANNELS, Column, PnnNetwork, narrowed, pnn_network
from gradcast.randomness import seeded

SHAPE = (1, 12, 13)
CHANNELS_OF_THREE = (2, 3, 4)


def columns(count: int) -> list[Column]:
    with seeded(0, "columns"):
        made = [Column(n, 3, shape=SHAPE, channels=CHANNELS_OF_THREE, widths=(6, 5)).double() for n in range(count)]
    return made


def images(seed: int = 0) -> Tensor:
    return torch.randn(7, *SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def train(network: PnnNetwork, steps: int = 3) -> None:
    network.train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    for step in range(steps):
        optimizer.zero_grad()
        cross_entropy(logits(network, images(step), network.newest), torch.arange(7) % 3).backward()
        optimizer.step()


def logits(network: PnnNetwork, x: Tensor, task: int) -> Tensor:
    found: Tensor = network(x).unflatten(1, (-1, 3))[:, task]
    return found


def equation(column: Column, x: Tensor, seen: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Level by level with plain functions; nothing is dropped."""
    found: list[Tensor] = []
    for level, layer in enumerate(column.layers):
        h = found[-1] if found else x
        z = conv2d(h, layer.weight, layer.bias) if level < 3 else h.flatten(1) @ layer.weight.T + layer.bias
        if seen and level > 0:
            lateral, other = column.laterals[level - 1], torch.cat([each[level - 1] for each in seen], dim=1)
            reduced = torch.einsum("oi,bi...->bo...", lateral.reduce.weight.flatten(1), lateral.scale * other).relu()
            u = lateral.expand.weight
            z = z + (conv2d(reduced, u) if level < 3 else reduced.flatten(1) @ u.T)
        found.append(z if level == 5 else max_pool2d(z.relu(), 2) if level < 3 else z.relu())
    return found


def test_three_columns_against_the_equation() -> None:
    network = PnnNetwork(columns(3)).eval()
    seen: list[list[Tensor]] = []
    for task, column in enumerate(network.columns):
        assert isinstance(column, Column)
        seen.append(equation(column, images(), seen))
        torch.testing.assert_close(logits(network, images(), task), seen[-1][-1])
        network.grow(task)
        torch.testing.assert_close(logits(network, images(), task), seen[-1][-1])
        assert not network(images())[:, 3 * (task + 1) :].any()
        network.grow(2)


def test_every_level_after_the_first_sees_the_earlier_columns() -> None:
    first, second = columns(2)
    assert len(first.laterals) == 0
    shapes = [(tuple(each.reduce.weight.shape), tuple(each.expand.weight.shape)) for each in second.laterals]
    maps = [((2, 2, 1, 1), (3, 2, 1, 1)), ((3, 3, 1, 1), (4, 3, 2, 2))]  # images of 12x13 have second kernels of 1x1
    assert shapes == [*maps, ((4, 4, 1, 1), (6, 4)), ((6, 6), (5, 6)), ((5, 5), (3, 5))]
    third = columns(3)[2]
    assert third.laterals[0].reduce.weight.shape == (2, 4, 1, 1)
    assert third.laterals[4].reduce.weight.shape == (5, 10)


@pytest.mark.parametrize("task", [0, 1])
def test_logits_of_a_task_are_the_same_bits_after_a_later_column_was_trained(task: int) -> None:
    network = PnnNetwork(columns(task + 2))
    network.grow(task)
    train(network)
    before = logits(network.eval(), images(5), task)
    network.grow(task + 1)
    start = logits(network, images(5), task + 1)
    train(network)
    assert torch.equal(logits(network.eval(), images(5), task), before)
    assert not torch.equal(logits(network, images(5), task + 1), start)


def test_only_the_newest_column_drops_out() -> None:
    network = PnnNetwork(columns(3)).train()
    assert [column.training for column in network.columns] == [False, False, True]
    first, second = (network(images()).unflatten(1, (3, 3)) for _ in range(2))
    assert torch.equal(first[:, :2], second[:, :2])
    assert not torch.equal(first[:, 2], second[:, 2])
    network.grow(1)
    assert [column.training for column in network.columns] == [False, True, False]
    assert not any(column.training for column in network.eval().columns)


def test_gradients_reach_all_weights_of_the_newest_column_and_no_others() -> None:
    network = PnnNetwork(columns(3)).eval()
    network.grow(1)
    network(images()).square().sum().backward()
    found = {name: p.grad for name, p in network.columns[1].named_parameters()}
    assert all(gradient is not None and gradient.any() for gradient in found.values())
    assert "laterals.4.scale" in found
    assert all(p.grad is None for other in (0, 2) for p in network.columns[other].parameters())


def test_columns_come_in_order() -> None:
    first, second = columns(2)
    with pytest.raises(AssertionError, match="columns in order"):
        PnnNetwork([second, first])
    with pytest.raises(AssertionError, match="sees all earlier ones"):
        second(images(), [])


def test_twenty_narrow_columns() -> None:
    assert narrowed(CHANNELS, 20) == (3, 7, 14)
    assert narrowed((1024, 512, 8), 20) == (57, 28, 1)


def test_all_columns_have_about_the_room_of_one_network() -> None:
    network = pnn_network((3, 32, 32), 20, 5)
    assert len(network.columns) == 20
    assert network.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 100)
    assert 0.2 < sum(p.numel() for p in network.parameters()) / 2_897_984 < 1.5
