from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, cross_entropy, max_pool2d

from gradcast.networks.pnn import CHANNELS, Column, PnnNetwork, narrowed
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
    optimizer = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=0.5)
    for step in range(steps):
        optimizer.zero_grad()
        cross_entropy(network(images(step)), torch.arange(7) % 3).backward()
        optimizer.step()


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
        torch.testing.assert_close(network.logits(images(), task), seen[-1][-1])
    torch.testing.assert_close(network(images()), seen[-1][-1])


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
    made = columns(task + 2)
    network = PnnNetwork(made[:-1])
    train(network)
    before = network.eval().logits(images(5), task)
    grown = PnnNetwork(made)
    start = grown.eval()(images(5))
    train(grown)
    assert torch.equal(grown.eval().logits(images(5), task), before)
    assert not torch.equal(grown(images(5)), start)


def test_only_the_newest_column_is_trained_and_drops_out() -> None:
    made = columns(3)
    network = PnnNetwork(made).train()
    assert [all(p.requires_grad for p in column.parameters()) for column in made] == [False, False, True]
    assert not any(p.requires_grad for column in made[:2] for p in column.parameters())
    assert [column.training for column in made] == [False, False, True]
    assert torch.equal(network.logits(images(), 1), network.logits(images(), 1))
    assert not torch.equal(network(images()), network(images()))
    assert not any(module.training for module in network.eval().columns)


def test_gradients_reach_all_weights_of_the_newest_column() -> None:
    network = PnnNetwork(columns(2)).eval()
    cross_entropy(network(images()), torch.arange(7) % 3).backward()
    found = {name: p.grad for name, p in network.columns[1].named_parameters()}
    assert all(gradient is not None and gradient.any() for gradient in found.values())
    assert "laterals.4.scale" in found
    assert all(p.grad is None for p in network.columns[0].parameters())


def test_columns_come_in_order() -> None:
    first, second = columns(2)
    with pytest.raises(AssertionError, match="columns in order"):
        PnnNetwork([second, first])
    with pytest.raises(AssertionError, match="sees all earlier ones"):
        second(images(), [])


def test_twenty_narrow_columns() -> None:
    assert narrowed(CHANNELS, 20) == (3, 7, 14)
    assert narrowed((1024, 512, 8), 20) == (57, 28, 1)
