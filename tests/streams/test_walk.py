import numpy as np
from torch import Tensor

from gradcast.randomness import numpy_generator
from gradcast.runs.checkpoint.state import pack, restore
from gradcast.streams.walk import Walk
from tests.helpers import CPU


def walk() -> Walk:
    return Walk(5, numpy_generator(3, "walk"))


def test_every_round_has_everything_once_in_its_own_order() -> None:
    own = walk()
    taken = np.concatenate([own.take(3) for _ in range(10)]).reshape(6, 5)
    assert all(sorted(turn) == list(range(5)) for turn in taken.tolist())
    assert len({tuple(turn) for turn in taken.tolist()}) > 3
    expected = numpy_generator(3, "walk")
    assert taken.tolist() == [expected.permutation(5).tolist() for _ in range(6)]


def test_parts_may_be_larger_than_a_round() -> None:
    assert sorted(walk().take(10).tolist()) == sorted([*range(5), *range(5)])


def test_it_goes_on_where_it_was() -> None:
    first, again = walk(), walk()
    first.take(7)
    tensors: dict[str, Tensor] = {}
    packed = pack(first, tensors)
    restore(again, packed, tensors, CPU)
    assert again.take(9).tolist() == first.take(9).tolist()
