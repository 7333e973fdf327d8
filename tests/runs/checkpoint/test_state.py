import json
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gradcast.randomness import numpy_generator, torch_generator
from gradcast.runs.checkpoint.state import pack, restore

CPU = torch.device("cpu")


class Inner:
    checkpointed: ClassVar[tuple[str, ...]] = ("count", "later")

    def __init__(self) -> None:
        self.count, self.later, self.setting = 0, None, "own"


class Outer:
    checkpointed: ClassVar[tuple[str, ...]] = (
        "weights",
        "many",
        "inner",
        "queue",
        "coin",
        "dice",
        "net",
        "optimizer",
        "by",
    )

    def __init__(self) -> None:
        self.weights = torch.zeros(2, 3)
        self.view = self.weights[0]
        self.many = [torch.zeros(2, requires_grad=True)]
        self.inner = Inner()
        self.queue = np.zeros(0, dtype=np.int64)
        self.coin, self.dice = numpy_generator(1, "a"), [torch_generator(1, "b")]
        self.net = nn.Linear(2, 1)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.1)
        self.by: dict[int, tuple[float, bool]] = {}

    def live(self) -> list[Tensor]:
        """A step of everything, and the random numbers that come next."""
        self.weights += 1
        with torch.no_grad():
            self.many[0] += 2
        self.inner.count, self.inner.later = 7, torch.arange(3)  # type: ignore[assignment]
        self.queue, self.by = np.arange(4), {3: (float("inf"), True)}
        self.optimizer.zero_grad()
        self.net(torch.ones(1, 2)).sum().backward()
        self.optimizer.step()
        drawn = [torch.tensor(self.coin.random()), torch.rand(2, generator=self.dice[0])]
        return [*drawn, *(p.detach().clone() for p in self.net.parameters())]


def moved(old: Outer) -> Outer:
    """Another object with the same state, by way of text."""
    tensors: dict[str, Tensor] = {}
    text = json.dumps(pack({"it": old}, tensors))
    assert all(key.startswith(".it.") for key in tensors)
    new = Outer()
    restore({"it": new}, json.loads(text), tensors, CPU)
    return new


def test_everything_goes_on_as_if_it_had_not_been_moved() -> None:
    old = Outer()
    old.live()
    new = moved(old)
    for mine, yours in zip(old.live(), new.live(), strict=True):
        assert torch.equal(mine, yours)
    assert (new.inner.count, new.by) == (7, {3: (float("inf"), True)})
    assert new.queue.tolist() == [0, 1, 2, 3]
    assert new.inner.later is not None
    assert new.inner.setting == "own"


def test_tensors_keep_their_place_and_packed_ones_are_copies() -> None:
    old, new = Outer(), Outer()
    old.live()
    tensors: dict[str, Tensor] = {}
    packed = pack(old, tensors)
    old.weights += 100
    place, leaf = new.weights.data_ptr(), new.many[0]
    restore(new, packed, tensors, CPU)
    assert new.weights.data_ptr() == place
    assert new.view.tolist() == [1, 1, 1]
    assert new.many[0] is leaf
    assert leaf.requires_grad


def test_what_cannot_be_stored_is_named() -> None:
    inner = Inner()
    inner.later = object()  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"\.later is a object, which no checkpoint can hold"):
        pack(inner, {})


def test_a_random_state_needs_a_generator() -> None:
    tensors: dict[str, Tensor] = {}
    packed = pack(torch_generator(0), tensors)
    with pytest.raises(TypeError, match="a random state for a NoneType"):
        restore(None, packed, tensors, CPU)
